"""mteb's encoder protocol: an extended model, and windows around an encoder whose inside we cannot change (an API)."""

from __future__ import annotations

import logging
import re
import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.types import PromptType
from torch.utils.data import DataLoader

from mteb_longembed.data.text_table import text_table
from mteb_longembed.encoders.model import LongModelMixin, LongSentenceTransformer
from mteb_longembed.encoders.store import EmbeddingStore
from mteb_longembed.errors import InputError
from mteb_longembed.files import is_terminal
from mteb_longembed.sentences import WORDS_PER_TOKEN

if TYPE_CHECKING:
    from mteb.types import Array, BatchedInput


#: Text without blanks has fewer characters a token.
CHARS_PER_TOKEN = 4
#: A word with the blanks before it; a longer one is cut.
_WORD = re.compile(r"\s*\S{1,64}")


def check_as_described(model: LongModelMixin) -> None:
    """Raise InputError if a model was changed after mteb described it: its results would bear a wrong name."""
    if model.checkpoint is not None and not model.is_unchanged():
        raise InputError(
            f"the model was changed after it was loaded as {model.checkpoint.spec.name()}, so results may not have "
            "that name: give mteb the SentenceTransformer itself (the attribute model), which is then local/NAME."
        )


class LongEncoder(SentenceTransformerEncoderWrapper):
    """An extended model as mteb's encoder, with its own prompts and similarity. Finished work is kept on disk.

    The environment sets the model's `store` (`MTEB_LONGEMBED_STORE`).
    """

    def __init__(self, model: LongSentenceTransformer, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        model.store = EmbeddingStore.from_environment()

    def encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> Array:
        """Encode as mteb does. A terminal shows a progress bar in tokens, unless `mteb run -v 0` turned it off."""
        kwargs.setdefault("show_progress_bar", show_bars())
        if not len(inputs):
            # similarity and stacking need an array with a width, and sentence-transformers' empty one has none
            return np.zeros((0, self.model.get_embedding_dimension()), np.float32)
        if kwargs.get("prompt_type") == PromptType.document:
            check_as_described(self.model)
        return super().encode(inputs, **kwargs)


def show_bars() -> bool:
    """Whether a progress bar is shown by default: in a terminal, unless `mteb run -v 0` turned it off."""
    return is_terminal(sys.stderr) and logging.getLogger("mteb").getEffectiveLevel() < logging.CRITICAL


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
        most = max(int(WORDS_PER_TOKEN * self.window_len), 1)
        found = []
        start = n_words = 0
        for word in _WORD.finditer(text):
            if n_words == most or (n_words and word.end() - start > CHARS_PER_TOKEN * self.window_len):
                found.append(text[start : word.start()])
                start = word.start()
                n_words = 0
            n_words += 1
        found.append(text[start:])
        return found[: self.n_windows]

    def encode(self, inputs: DataLoader[Any], **kwargs: Any) -> np.ndarray:
        """Encode texts, as mteb calls every encoder: `[texts, d]`, the mean over the windows of each text."""
        texts = chain.from_iterable(batch["text"] for batch in inputs)
        cut = list(map(self.windows, texts))
        table = text_table({str(number): piece for number, piece in enumerate(chain.from_iterable(cut))})
        rows = self.inner.encode(DataLoader(table, batch_size=inputs.batch_size or 1), **kwargs)
        rows = np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)
        ends = np.cumsum(list(map(len, cut)))
        means = [part.mean(axis=0) for part in np.split(rows, ends[:-1])]
        return np.stack(means) if cut else rows
