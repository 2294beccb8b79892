"""The bases of a comparison, and how long its data are for each of them."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from mteb_longembed.encoders.base import Base
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.split import Split

from .candidates import Candidate, of_base
from .costs import Lengths, document_lengths


class MeasuredBase(NamedTuple):
    """A base, and how long documents and queries are for it."""

    candidate: Candidate  #: the base without extension
    base: Base
    lengths: Lengths  #: lengths of the documents
    longest: int | None  #: the longest input in tokens, see `longest_input`


def measured_base(name: str, splits: Sequence[Split]) -> MeasuredBase:
    """Read a base and its tokenizer, and measure documents and queries. No weights are read.

    Raises:
        InputError: if the model is extended already.
        HubError, ModelError: if the base cannot be read.
    """
    candidate, base = of_base(name)
    if base.saved_strategy is not None:
        raise InputError(f"{name} is extended already, so nothing is left to compare: give the base instead.")
    tokenizer = AutoTokenizer.from_pretrained(
        base.files.path,
        revision=None if base.files.local else base.revision,
        trust_remote_code=base.runs_code,
    )
    lengths = document_lengths(splits, tokenizer)
    queries = list(chain.from_iterable(split.queries.values() for split in splits))
    return MeasuredBase(candidate, base, lengths, longest_input(base, lengths, tokenizer, queries))


def longest_input(
    base: Base, lengths: Lengths, tokenizer: PreTrainedTokenizerBase, queries: Sequence[str]
) -> int | None:
    """Return the longest input of a base in tokens, with special tokens and its longest prompt; None if not known.

    Args:
        base: the base.
        lengths: the lengths of its documents.
        tokenizer: its tokenizer.
        queries: the queries, which have to fit too.
    """
    if lengths.scale > 1:  # only a sample was read
        return None
    prompts = list((base.files.json("config_sentence_transformers.json").get("prompts") or {}).values())
    prompts += [base.entry.query_prompt, base.entry.document_prompt]
    around = [len(tokenizer(prompt or "", verbose=False)["input_ids"]) for prompt in ["", *prompts]]
    rows = [tokenizer(query, add_special_tokens=False, verbose=False)["input_ids"] for query in queries]
    return max([lengths.longest, *map(len, rows)]) + max(around)
