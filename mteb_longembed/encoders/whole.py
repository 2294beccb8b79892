"""Join the windows of late-interaction and sparse models into whole texts again."""

import numpy as np
import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sparse_encoder.modules import SpladePooling
from torch import Tensor

from .devices import to_device
from .vectors import BATCH, RUNS, TOKEN_FEATURES, WINDOWS, Features, TokenBatch


class JoinWindows(Module):
    """Puts the token embeddings of windows `[w, size, d]` back into texts `[b, n, d]`, for late interaction.

    A token in several windows, such as the special ones, has the embedding of the first window.

    Source: parallel context windows (Zhu et al. 2024, arXiv:2404.12096), MaxSim over all of them (Khattab and Zaharia
        2020, arXiv:2004.12832).
    """

    def forward(self, features: Features, **kwargs: object) -> Features:
        """Replace the features of windows by the features of texts. Texts that were not cut do not change."""
        batch: TokenBatch = features[BATCH]
        windows = batch.windows
        if windows is None:
            return features
        shape = len(batch.bounds), batch.width
        real = (windows.tokens.flatten() >= 0).nonzero()[:, 0]
        unique, first = np.unique(windows.cells(batch.width)[real].numpy(), return_index=True)
        joined = {}
        for key in ("token_embeddings", *TOKEN_FEATURES):
            if key in features:
                values: Tensor = features[key].flatten(0, 1)
                cells = to_device(torch.from_numpy(unique), values.device)
                rows = to_device(real[torch.from_numpy(first)], values.device)
                whole = values.new_zeros(shape[0] * shape[1], *values.shape[1:])
                joined[key] = whole.index_copy(0, cells, values[rows]).view(*shape, *values.shape[1:])
        return {**features, **joined, BATCH: TokenBatch(batch.bounds)}

    def save(
        self, output_path: str, *args: object, safe_serialization: bool = True, **kwargs: object
    ) -> None:
        """Save nothing: the module has no settings."""
        self.save_config(output_path)


class LongSpladePooling(SpladePooling):
    """Pools the logits of each batch of windows before the next one runs. A text has the maximum of its windows.

    The logits of 32,768 tokens over 30,522 terms would take 4 GB.

    Source: SPLADE's maximum over tokens (Formal et al. 2021, arXiv:2109.10086). Over all windows, it is the maximum
        over all tokens of the text.
    Differs: with the older sum over tokens, the sums of windows are compared, because windows may overlap.
    """

    def forward(self, features: Features, **kwargs: object) -> Features:
        """Add `sentence_embedding` `[b, terms]`, and for texts that were cut the vectors of windows `[w, terms]`."""
        features = dict(features)
        runs = features.pop(RUNS, None)
        if runs is None:
            return super().forward(features)
        pool = super().forward
        windows = torch.cat([pool(run)["sentence_embedding"] for run in runs])
        counts = features[BATCH].windows.texts.bincount().tolist()
        texts = torch.stack([rows.amax(0) for rows in windows.split(counts)])
        return {**features, "sentence_embedding": texts, WINDOWS: windows.split(counts)}
