"""Windows around an encoder whose inside we cannot change: any encoder of mteb's, above all an API."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mteb_longembed.encoders.checkpoint import ModelSpec, strategy_of
from mteb_longembed.encoders.strategies import ALGORITHM
from mteb_longembed.encoders.strategies.pcw import ParallelContextWindows
from mteb_longembed.errors import IncompatibleError, InputError, ModelError

if TYPE_CHECKING:
    from mteb.models import EncoderProtocol
    from mteb.models.model_meta import ModelMeta
    from mteb.types import BatchedInput
    from tiktoken import Encoding
    from torch.utils.data import DataLoader

#: The character at which each token of a text starts. A token inside a character starts where the character does.
TokenStarts = Callable[[str], Sequence[int]]


@dataclass(eq=False)
class WindowedEncoder:
    """An encoder that cuts long texts into windows, encodes each window, and averages the embeddings.

    Source: Zhu et al. 2024, arXiv:2404.12096, section 4.1 (parallel context windows). In its Table 2,
        text-embedding-ada-002 encodes only 8,191 tokens.
    Differs: texts are cut at character boundaries, so a token that crosses a cut may become several tokens.

    Args:
        inner: any encoder of mteb's. It adds its own prompt and special tokens to each window.
        token_starts: the inner encoder's own tokenizer, so that windows are counted in its tokens.
        strategy: `pcw` with the inner encoder's longest input, without the special tokens and prompt that it adds
            itself, and the target length, both in tokens.
    """

    inner: EncoderProtocol
    token_starts: TokenStarts
    strategy: ParallelContextWindows

    def __post_init__(self) -> None:
        self.similarity = self.inner.similarity
        self.similarity_pairwise = self.inner.similarity_pairwise

    def windows(self, text: str) -> list[str]:
        """The texts of a document's windows. A text that fits into one window is returned unchanged.

        Every token up to the target is in a window of at most `Lo` tokens. The last window starts earlier, so
        that it is full, as in `pcw` on any model.
        """
        starts = list(self.token_starts(text))
        room = self.strategy.trained_len
        limit = self.strategy.target_len
        if len(starts) <= room:
            return [text]
        edges = [*starts, len(text)][: limit + 1]
        # without the text before it, the last window may have a few tokens more than it had inside the document
        last = max(len(edges) - 1 - room, 0)
        while len(self.token_starts(text[edges[last] : edges[-1]])) > room:
            last += 1
        pieces: list[str] = []
        at = 0
        while at < last:
            stop = self._fitting(text, edges, at)
            pieces.append(text[edges[at] : edges[stop]])
            at = stop
        return [*pieces, text[edges[last] : edges[-1]]]

    def _fitting(self, text: str, edges: list[int], at: int) -> int:
        """The last token such that the text from token `at` to this token fits into one window."""
        room = self.strategy.trained_len
        stop = min(at + room, len(edges) - 1)
        while True:
            excess = len(self.token_starts(text[edges[at] : edges[stop]])) - room
            # a cut inside a character would lose the rest of it
            if excess <= 0 and edges[stop] > edges[at]:
                return stop
            stop -= max(excess, 1)
            if stop <= at:
                raise InputError(
                    f"a window must hold at least one character, got {room} tokens: use a longer trained_len."
                )

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


def windowed(base: ModelMeta, spec: ModelSpec, settings: Iterable[str] = ()) -> ModelMeta:
    """The `ModelMeta` of `BASE+pcw@TARGET` around one of mteb's own models. It takes no settings of search."""
    if spec.kind is not ParallelContextWindows:
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
    known = None
    if base.max_tokens:
        known = int(base.max_tokens)
    if not (spec.trained_len or known):
        raise InputError(f"mteb does not say how many tokens {base.name} takes: add :trained_len=TOKENS.")
    strategy = cast("ParallelContextWindows", strategy_of(spec, known, str(base.name)))
    trained_len = None
    if strategy.trained_len != known:
        trained_len = strategy.trained_len
    lengths = (strategy.target_len, trained_len)
    params = strategy.settings()
    fields = {
        "name": str(ModelSpec(str(base.name), spec.strategy, *lengths, params=params)),
        "revision": f"{base.revision}-{ALGORITHM}",
        "loader": functools.partial(load_windowed, base, strategy),
        "loader_kwargs": {},
        "max_tokens": strategy.target_len,
        "adapted_from": base.name,
    }
    return base.model_copy(update=fields)


def load_windowed(
    base: ModelMeta,
    strategy: ParallelContextWindows,
    name: str,
    revision: str | None = None,
    device: str | None = None,
    **options: object,
) -> WindowedEncoder:
    """The loader in a windowed `ModelMeta`: mteb loads the base, and we wrap it."""
    starts = token_starts_of(base)
    inner = cast("EncoderProtocol", base.load_model(device=device, **cast("dict[str, Any]", options)))
    return WindowedEncoder(inner, starts, strategy)


def token_starts_of(base: ModelMeta) -> TokenStarts:
    """The tokenizer of an API's model."""
    encoding = base.loader_kwargs.get("tokenizer_name")
    if not isinstance(encoding, str):
        raise InputError(
            f"windows are counted in {base.name}'s own tokens, and mteb names no tokenizer for it; wrap the model in "
            "mteb_longembed.plugin.api_models.WindowedEncoder together with its tokenizer."
        )
    try:
        import tiktoken
    except ModuleNotFoundError as error:
        raise ModelError(
            f"counting {base.name}'s tokens needs tiktoken: pip install mteb-longembed[api]."
        ) from error
    return functools.partial(tiktoken_starts, tiktoken.get_encoding(encoding))


def tiktoken_starts(encoding: Encoding, text: str) -> list[int]:
    """The character at which each token of `text` starts, from a tiktoken Encoding."""
    ids = encoding.encode_ordinary(text)
    if ids:
        return encoding.decode_with_offsets(ids)[1]
    return []
