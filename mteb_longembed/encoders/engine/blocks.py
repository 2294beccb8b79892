"""Blocks of documents. One block is tokenised while the block before it is encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .tokenizing import Ids

#: Characters for each token, roughly. Used only for planning.
CHARS_PER_TOKEN = 4.5
#: A block has the tokens of this many batches. The first block has fewer, so that encoding starts at once.
_FIRST, _LATER = 4, 64


@dataclass(frozen=True)
class Block:
    """Documents of about the same length: their indices among the inputs, and their ids."""

    places: list[int]
    ids: list[Ids]


def estimated_tokens(text: str, max_len: int) -> int:
    """About how many tokens of a text are encoded, estimated without reading it."""
    return min(int(len(text) / CHARS_PER_TOKEN) + 2, max_len)


def divide(texts: Sequence[str], max_len: int, batch_tokens: int) -> list[list[int]]:
    """Indices of the texts in blocks, the longest texts first. They depend only on lengths and settings.

    Args:
        texts: all inputs.
        max_len: tokens kept of each text.
        batch_tokens: tokens of one batch.
    """
    blocks: list[list[int]] = []
    filled = limit = 0
    for place in sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)):
        if filled >= limit:
            blocks.append([])
            filled, limit = 0, batch_tokens * (_FIRST if len(blocks) == 1 else _LATER)
        blocks[-1].append(place)
        filled += estimated_tokens(texts[place], max_len)
    return blocks


def tokenised_blocks(
    texts: Sequence[str], blocks: Sequence[list[int]], tokenise: Callable[[list[str]], list[Ids]]
) -> Iterator[Block]:
    """The blocks with their ids. A thread tokenises each block while the block before it is encoded."""
    if not blocks:
        return

    def read(places: list[int]) -> Block:
        return Block(places, tokenise([texts[i] for i in places]))

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tokenise") as pool:
        ahead: Future[Block] = pool.submit(read, blocks[0])
        for following in blocks[1:]:
            block, ahead = ahead.result(), pool.submit(read, following)
            yield block
        yield ahead.result()
