"""Windows around an encoder whose inside we cannot change: any encoder of mteb's, above all an API."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
from mteb.models.model_meta import ModelMeta
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.checkpoint import ModelSpec, strategy_of
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import IncompatibleError, InputError

#: The paper's rule: 0.75 words are one token. Text without blanks has fewer characters a token.
WORDS_PER_TOKEN = 0.75
CHARS_PER_TOKEN = 4
#: A word with the blanks before it; a longer one is cut.
_WORD = re.compile(r"\s*\S{1,64}")


class WindowedEncoder:
    """An encoder that cuts long texts into windows of words, encodes each window, and averages the embeddings.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 (parallel context windows).
    Differs: windows are counted in words, 0.75 for a token, because an API's tokenizer is not at hand.

    Args:
        inner: any encoder of mteb's. It adds its own prompt and special tokens to each window.
        window_len: tokens of a window, at most what the inner encoder takes.
        target_len: tokens of a text that are read.
    """

    def __init__(self, inner: Any, window_len: int, target_len: int) -> None:
        self.inner = inner
        self.window_len = window_len
        self.n_windows = -(-target_len // window_len)
        self.similarity = inner.similarity
        self.similarity_pairwise = inner.similarity_pairwise

    def windows(self, text: str) -> list[str]:
        """The texts of a document's windows: neighbouring parts, cut between words."""
        return list(_pieces(text, self.window_len))[: self.n_windows]

    def encode(self, inputs: DataLoader[Any], **kwargs: Any) -> np.ndarray:
        """Encode texts, as mteb calls every encoder: `[texts, d]`, the mean over the windows of each text."""
        cut = [self.windows(text) for batch in inputs for text in batch["text"]]
        table = text_table({str(number): piece for number, piece in enumerate(chain.from_iterable(cut))})
        rows = self.inner.encode(DataLoader(table, batch_size=inputs.batch_size or 1), **kwargs)
        rows = np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)
        ends = np.cumsum(list(map(len, cut)))
        means = [part.mean(axis=0) for part in np.split(rows, ends[:-1])]
        return np.stack(means) if cut else rows


def _pieces(text: str, n_tokens: int) -> Iterator[str]:
    most = max(int(WORDS_PER_TOKEN * n_tokens), 1)
    start = n_words = 0
    for word in _WORD.finditer(text):
        if n_words == most or (n_words and word.end() - start > CHARS_PER_TOKEN * n_tokens):
            yield text[start : word.start()]
            start = word.start()
            n_words = 0
        n_words += 1
    yield text[start:]


def windowed(base: ModelMeta, spec: ModelSpec, settings: Iterable[str] = ()) -> ModelMeta:
    """The `ModelMeta` of `BASE+pcw@TARGET` around one of mteb's own models. It takes no settings of search."""
    if not spec.kind.CUTS:
        raise IncompatibleError(
            f"{spec.strategy} acts inside a model, and the inside of {base.name} cannot be changed; use pcw."
        )
    foreign = {*spec.experiment, *settings} - {"strategy", "target_len", "trained_len", "logn"}
    if foreign:
        raise IncompatibleError(
            f"{base.name} runs behind an API, where pcw has windows of the trained length only, got "
            f"{', '.join(sorted(foreign))}: leave it out."
        )
    known = int(base.max_tokens) if base.max_tokens else None
    strategy = strategy_of(spec, known, str(base.name))
    experiment = {"strategy": spec.strategy, "target_len": strategy.target_len, "algorithm": ALGORITHM}
    if strategy.trained_len != known:
        experiment["trained_len"] = strategy.trained_len

    def load(
        name: str,
        revision: str | None = None,
        device: str | None = None,
        embed_dim: int | None = None,
        **options: Any,
    ) -> WindowedEncoder:
        check_options(name, experiment, options)
        inner = base.load_model(device=device, embed_dim=embed_dim)
        return WindowedEncoder(inner, strategy.trained_len, strategy.target_len)

    fields = {"loader": load, "loader_kwargs": {}, "max_tokens": strategy.target_len}
    return base.model_copy(update={"experiment_kwargs": experiment, **fields})


def check_options(name: str, experiment: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise InputError for an option that mteb gives to a loader, and that is not in the experiment of its model."""
    for key, value in options.items():
        if experiment.get(key) != value:
            raise InputError(
                f"what changes a model is part of its name, got {key}={value} beside {name}: write it into the name, "
                "or leave it out."
            )
