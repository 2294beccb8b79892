"""`weigh`: a model whose texts are pooled with corpus weights, counted in a user's own documents."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WordWeights
from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import IncompatibleError, InputError

from .building import load_base, settings_of
from .checkpoints.checkpoint import open_checkpoint
from .checkpoints.spec import ModelSpec
from .extend import load
from .features import Ids
from .model import LongModelMixin
from .modules import LongTransformer
from .sentence_transformers_parts import set_card
from .spans import document_prompt
from .token_weights import RULES, Rule, TokenCounts, TokenWeights, digest, weights_of, word_weights

#: What can be weighed: a model of sentence-transformers' own, or one of ours.
Model = SentenceTransformer | MultiVectorEncoder

#: Tokens that are counted at most. Fifty documents of 12,000 tokens give nearly what 200 give.
MAX_TOKENS = 10_000_000
#: Texts that are tokenised together.
_AT_ONCE = 64
_CARD = """\
# {name}

[{base}](https://huggingface.co/{base}) with corpus weights: in each document and query, a token counts by how rare it
is in one corpus ({rule}). Counted were {n_tokens:,} tokens of {n_documents:,} documents. Search that corpus with this
model; for another corpus, count again: `mteb_longembed.weigh("{base}", documents)`.

The folder has sentence-transformers' own modules (Transformer, WordWeights, Pooling) and needs no other package:

```python
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

model = SentenceTransformer("{name}")
```
"""


def weigh(
    base: str | Path | SentenceTransformer | MultiVectorEncoder,
    texts: Sequence[str],
    rule: Rule = "sif",
    *,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    device: str | None = None,
    show_progress_bar: bool = True,
) -> SentenceTransformer | MultiVectorEncoder:
    """Weight each token of documents and queries by how rare it is in `texts`, the corpus that is searched.

    The mean of a long document consists mostly of tokens that every document has. Rare tokens tell documents apart.
    Weights of other text do not help: count the documents that you search.

    Without a strategy the result has sentence-transformers' own modules (Transformer, WordWeights, Pooling, ...), and a
    saved folder opens without this package.

    Source: Arora et al. 2017, ICLR (SIF), for the tokens of a transformer, with counts of the searched corpus.

    Args:
        base: a name such as `e5-base+ntk`, an alias, a hub id, a folder, or a loaded model, which is not changed (but
            moved, if `device` is given).
        texts: the documents of the corpus. Of each one the tokens count that the model reads.
        rule: `sif` (`a / (a + share of the token)`) or `idf` (`ln((N + 1) / (n + 0.5))` of documents).
        max_tokens: documents are drawn until they have as many tokens.
        seed: of this draw.
        device: where the model goes. Default: the best device of this machine.
        show_progress_bar: show how many documents are counted.

    Returns:
        A new model.

    Raises:
        InputError: if the rule is unknown, or the texts have no token.
        IncompatibleError: if the model does not average the vectors of its tokens.
        LongEmbedError: for the same reasons as `load`.
    """
    if rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}.")
    if isinstance(texts, str):
        raise InputError(f"texts must be a list of documents, got one text, {texts[:40]!r}: use a list.")
    model = _loaded(base, device)
    check_weighable(model)  # before a large corpus is counted
    counts = count_tokens(model, texts, max_tokens=max_tokens, seed=seed, show=show_progress_bar)
    weighed = weighted(model, counts, rule)
    if isinstance(weighed, LongModelMixin):
        weighed.checkpoint = None
        weighed.store = None
    known_as = str(model.model_card_data.model_name or model.model_card_data.base_model or base)
    _describe(weighed, known_as, rule, counts)
    return weighed


def weighted(model: Model, counts: TokenCounts, rule: Rule) -> Model:
    """The model with corpus weights before its pooling. It shares the transformer with `model`, which stays as it is.

    Raises:
        IncompatibleError: if the model does not average the vectors of its tokens.
        InputError: if no token was counted.
    """
    first, pooling, *others = list(model)
    check_weighable(model)
    weights = weights_of(counts, rule, model.tokenizer)
    is_long = isinstance(first, LongTransformer)
    table = word_weights(TokenWeights if is_long else WordWeights, weights, model.tokenizer)
    if isinstance(table, TokenWeights):
        table.counted = f"{rule} of {counts.n_tokens:,} tokens in {counts.n_documents:,} documents"
    if is_long:
        # the constructor tells the transformer what follows it, and the model without weights has its own
        first = copy.copy(first)
    if any(model.prompts.values()):
        # a prompt stands before every text and says nothing about it
        pooling = copy.copy(cast("Pooling", pooling))
        pooling.include_prompt = False
    modules: list[nn.Module] = [first, table, pooling, *others]
    made: Any = type(model)(modules=modules, device=str(model.device), **settings_of(model))
    if isinstance(model, LongModelMixin) and model.is_unchanged():
        # its rows are in the store under the model's name with a digest of the weights
        made.remember(model.checkpoint)
        made.store = model.store
    return cast("Model", made)


def check_weighable(model: Model) -> None:
    """Raise IncompatibleError if a model does not average the vectors of its tokens."""
    pooling = model[1] if len(model) > 1 else None
    if isinstance(pooling, WordWeights):
        raise IncompatibleError(
            "the model has corpus weights already: weigh its base, or leave out weights=."
        )
    if not isinstance(model[0], Transformer) or not isinstance(pooling, Pooling):
        kind = "no pooling of tokens" if pooling is None else f"a {type(pooling).__name__} in its place"
    elif pooling.pooling_mode != "mean":
        kind = f"{pooling.pooling_mode} pooling"
    else:
        return
    raise IncompatibleError(
        f"corpus weights need a model that averages its tokens, got one with {kind}: use several vectors "
        "(pcw:vectors=window) and fuse=bm25 instead."
    )


def count_tokens(
    model: Model, texts: Sequence[str], *, max_tokens: int = MAX_TOKENS, seed: int = 0, show: bool = False
) -> TokenCounts:
    """The tokens of a corpus, as far as the model reads its documents, without prompt and special tokens.

    Documents are drawn in a random order until they have `max_tokens` tokens.
    """
    order = np.random.default_rng(seed).permutation(len(texts))
    table = cast("Transformer", model[0]).model.get_input_embeddings()
    vocabulary = max(cast("nn.Embedding", table).num_embeddings, len(model.tokenizer))

    def drawn() -> Iterator[Ids]:
        n_tokens = 0
        with tqdm(total=len(texts), desc="Counting tokens", unit=" documents", disable=not show) as bar:
            for start in range(0, len(order), _AT_ONCE):
                part = [str(texts[i]) for i in order[start : start + _AT_ONCE]]
                for ids in _content_ids(model, part):
                    if n_tokens >= max_tokens:
                        return
                    n_tokens += len(ids)
                    bar.update()
                    yield ids

    return TokenCounts.of(drawn(), vocabulary)


def _content_ids(model: Model, texts: list[str]) -> list[Ids]:
    """The ids of each text's own tokens."""
    first = model[0]
    if isinstance(first, LongTransformer):
        prompt = document_prompt(model) or None
        ids = first.token_ids(texts, prompt)
        if ids is not None:
            bounds = first.content_bounds(ids, prompt)
            return [row[start:end] for row, (start, end) in zip(ids, bounds, strict=True)]
    limit = model.max_seq_length
    tokenizer = model.tokenizer
    room = None if limit is None else max(limit - tokenizer.num_special_tokens_to_add(), 0)
    rows = tokenizer(texts, add_special_tokens=False, truncation=False)["input_ids"]
    return [np.array(row[:room], np.int32) for row in rows]


def _loaded(base: str | Path | Model, device: str | None) -> Model:
    """The model: of sentence-transformers' own classes, unless its name asks for a strategy."""
    if isinstance(base, (SentenceTransformer, MultiVectorEncoder)):
        return base if device is None else base.to(device)
    if not isinstance(base, (str, Path)):
        raise InputError(
            f"weigh takes a name, a folder or a SentenceTransformer, got a {type(base).__name__}."
        )
    spec = ModelSpec.parse(str(base))
    checkpoint = open_checkpoint(spec)
    is_plain = ModelSpec(spec.base, revision=spec.revision) == spec and checkpoint.base.carried is None
    if is_plain:
        return cast("Model", load_base(checkpoint.base, None, device))
    return load(base, device=device)


def _describe(model: Model, base: str, rule: Rule, counts: TokenCounts) -> None:
    """Say in the model's name and on its card what was counted."""
    card = model.model_card_data
    short = base.replace("\\", "/").rstrip("/").rpartition("/")[2]
    card.model_name = f"local/{short}-{rule}"
    card.base_model = base
    card.base_model_revision = digest(cast("WordWeights", model[1]).emb_layer.weight)
    card.add_tags(["corpus-weights"])
    if not isinstance(model, LongModelMixin):
        numbers = {"n_tokens": counts.n_tokens, "n_documents": counts.n_documents}
        set_card(model, _CARD.format(name=card.model_name, base=base, rule=rule, **numbers))
