"""Windows around an encoder whose inside we cannot change: any encoder of mteb's, above all an API."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mteb_longembed.encoders.checkpoint import ModelSpec, strategy_of
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.errors import IncompatibleError, InputError, ModelError

if TYPE_CHECKING:
    from mteb.models import EncoderProtocol
    from mteb.models.model_meta import ModelMeta
    from mteb.types import BatchedInput
    from torch.utils.data import DataLoader

#: The paper's rule: 0.75 words are one token. Text without blanks has fewer characters a token.
WORDS_PER_TOKEN = 0.75
CHARS_PER_TOKEN = 4
#: A word with the blanks before it; a longer one is cut.
_WORD = re.compile(r"\s*\S{1,64}")


@dataclass(eq=False)
class WindowedEncoder:
    """An encoder that cuts long texts into windows of words, encodes each window, and averages the embeddings.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 (parallel context windows). In its Table 2,
        text-embedding-ada-002 encodes only 8,191 tokens.
    Differs: windows are counted in words, 0.75 for a token, because an API's tokenizer is not at hand.

    Args:
        inner: any encoder of mteb's. It adds its own prompt and special tokens to each window.
        window_len: tokens of a window, at most what the inner encoder takes.
        target_len: tokens of a text that are read.
    """

    inner: EncoderProtocol
    window_len: int
    target_len: int

    def __post_init__(self) -> None:
        self.similarity = self.inner.similarity
        self.similarity_pairwise = self.inner.similarity_pairwise

    def windows(self, text: str) -> list[str]:
        """The texts of a document's windows. A text that fits into one window is returned unchanged."""
        pieces = list(_pieces(text, self.window_len))
        if len(pieces) < 2:
            return [text]
        n_read = -(-self.target_len // self.window_len)
        return pieces[:n_read]

    def encode(self, inputs: DataLoader[BatchedInput], **kwargs: Any) -> np.ndarray:
        """Encode texts, as mteb calls every encoder: `[texts, d]`, the mean over the windows of each text."""
        from torch.utils.data import DataLoader

        from mteb_longembed.data.text_table import text_table

        cut = [self.windows(text) for batch in inputs for text in batch["text"]]
        pieces = [piece for windows in cut for piece in windows]
        counts = [len(windows) for windows in cut]
        table = text_table({str(number): piece for number, piece in enumerate(pieces)})
        loader = DataLoader(table, batch_size=inputs.batch_size or 1)
        vectors = self.inner.encode(loader, **kwargs)
        vectors = np.asarray(vectors.cpu() if hasattr(vectors, "cpu") else vectors)
        if len(vectors) != len(pieces):
            raise ModelError(f"the inner encoder returned {len(vectors)} vectors for {len(pieces)} texts.")
        if not counts:
            return vectors
        sums = np.add.reduceat(vectors, np.cumsum([0, *counts[:-1]]), axis=0)
        return (sums / np.array(counts)[:, None]).astype(vectors.dtype)


def _pieces(text: str, n_tokens: int) -> Iterator[str]:
    """Neighbouring parts of a text, each of about so many tokens, cut between words."""
    words = max(int(WORDS_PER_TOKEN * n_tokens), 1)
    start = n_words = 0
    for word in _WORD.finditer(text):
        if n_words == words or (n_words and word.end() - start > CHARS_PER_TOKEN * n_tokens):
            yield text[start : word.start()]
            start = word.start()
            n_words = 0
        n_words += 1
    yield text[start:]


def windowed(base: ModelMeta, spec: ModelSpec, settings: Iterable[str] = ()) -> ModelMeta:
    """The `ModelMeta` of `BASE+pcw@TARGET` around one of mteb's own models. It takes no settings of search."""
    if "windows" not in spec.kind.overrides():
        raise IncompatibleError(
            f"{spec.strategy} acts inside a model, and the inside of {base.name} cannot be changed; use pcw."
        )
    foreign = {*spec.params, *settings} - {"logn"}
    if spec.vectors is not None:
        foreign.add("vectors")
    if foreign:
        raise IncompatibleError(
            f"{base.name} runs behind an API, where pcw has windows of the trained length only, got "
            f"{', '.join(sorted(foreign))}: leave it out."
        )
    known = int(base.max_tokens) if base.max_tokens else None
    if not (spec.trained_len or known):
        raise InputError(f"mteb does not say how many tokens {base.name} takes: add :trained_len=TOKENS.")
    strategy = strategy_of(spec, known, str(base.name))
    trained_len = None if strategy.trained_len == known else strategy.trained_len
    experiment = ModelSpec(str(base.name), spec.strategy, strategy.target_len, trained_len).experiment
    fields = {
        "experiment_kwargs": {**experiment, "algorithm": ALGORITHM},
        "loader": functools.partial(load_windowed, base),
        "loader_kwargs": {},
        "max_tokens": strategy.target_len,
    }
    return base.model_copy(update=fields)


def load_windowed(
    base: ModelMeta,
    name: str,
    revision: str | None = None,
    device: str | None = None,
    *,
    strategy: str,
    target_len: int,
    trained_len: int | None = None,
    algorithm: str = ALGORITHM,
    **options: Any,
) -> WindowedEncoder:
    """The loader in a windowed `ModelMeta`: mteb loads the base, and we wrap it. Keywords are those of the experiment.

    Raises:
        InputError: if the algorithm is not the one of this version.
    """
    if algorithm != ALGORITHM:
        raise InputError(f"this version has the algorithm {ALGORITHM}, got {algorithm}.")
    inner = cast("EncoderProtocol", base.load_model(device=device, **options))
    return WindowedEncoder(inner, trained_len or int(base.max_tokens or target_len), target_len)
