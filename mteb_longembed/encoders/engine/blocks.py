"""Blocks of documents whose token ids are ready while the block before them is encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .tokenizing import Ids

#: A rough length, for planning only: characters a token.
CHARS_PER_TOKEN = 4.5
#: A block holds this many batches' worth of tokens, the first one fewer, so that encoding starts at once.
_FIRST, _LATER = 4, 64


@dataclass(frozen=True)
class Block:
    """Documents of about the same length: their places among the inputs, and their ids."""

    places: list[int]
    ids: list[Ids]


def estimated_tokens(text: str, max_len: int) -> int:
    """About how many tokens of a text are encoded, without reading it."""
    return min(int(len(text) / CHARS_PER_TOKEN) + 2, max_len)


def divide(texts: Sequence[str], max_len: int, batch_tokens: int) -> list[list[int]]:
    """Places of the texts in blocks, the longest texts first: a pure function of lengths and settings.

    Args:
        texts: all inputs.
        max_len: tokens kept of each.
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
    """The blocks with their ids, each tokenised in a thread while the one before it is worked on."""
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
