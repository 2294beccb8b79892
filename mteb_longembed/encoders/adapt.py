"""`adapt`: a model that is fitted on a user's own documents, without training: corpus weights, then whitening."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from sentence_transformers import MultiVectorEncoder, SentenceTransformer

from mteb_longembed.encoders.building import load_base
from mteb_longembed.encoders.checkpoints.checkpoint import open_checkpoint
from mteb_longembed.encoders.checkpoints.identity import digest
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.compute_type import why_bf16
from mteb_longembed.encoders.extend import check_unset, load
from mteb_longembed.encoders.heads.counting import count_tokens, vocabulary_of
from mteb_longembed.encoders.heads.head import Head
from mteb_longembed.encoders.heads.transforms import TRANSFORMS, Transform
from mteb_longembed.encoders.heads.weights import RULES, TokenCounts, TokenWeights
from mteb_longembed.encoders.heads.whitening import Moments, Whitening
from mteb_longembed.encoders.model import LongModelMixin, Model, with_head
from mteb_longembed.encoders.pieces import keeping, pieces, with_uncut
from mteb_longembed.encoders.positions.strategies import ALGORITHM
from mteb_longembed.encoders.publishing.card import ADAPTED, adapted_card
from mteb_longembed.encoders.text.drawing import MAX_TOKENS, draw, read_given
from mteb_longembed.errors import InputError

logger = logging.getLogger(__name__)

#: With fewer documents or pieces of them, adapting is no sure gain, and a loss on some collections (docs/adapt.md).
FEW_DOCUMENTS = 12
FEW_PIECES = 50


def adapt(
    base: str | Path | Model,
    documents: Iterable[str] | TokenCounts | Moments,
    *,
    weights: Literal["idf", "sif"] | None = "idf",
    whiten: float = 0.5,
    queries: Iterable[str] | None = None,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
    device: str | None = None,
    dtype: str | None = None,
    show_progress_bar: bool = True,
    **transform: float,
) -> Model:
    """Fit a model on the documents that it will search. Nothing is trained, and no label is needed.

    First each token counts by how rare it is in the documents (`weights`; only where the model averages its tokens).
    Then all vectors pass through an affine map, from mean and covariance of the pieces of documents that the model
    reads: windows, where it cuts them (`whiten`). A model with a strategy keeps these in the store. Without a strategy
    the result has sentence-transformers' own modules (Transformer, WordWeights, Pooling, Dense, Normalize), and a saved
    folder opens without this package.

    Source: Arora et al. 2017, ICLR (weights); Su et al. 2021, arXiv:2103.15316 (whitening), here with the counts and
        the windows of the corpus that is searched.

    Args:
        base: a name such as `e5-base+ntk`, an alias, a hub id, a folder, or a loaded model, which is not changed (but
            moved, if `device` is given).
        documents: texts of the corpus, in any iterable. It is read once, and only what is drawn stays in memory: for a
            stream in random order, `itertools.islice` reads a part of it alone. Or sums that several machines have
            added up: `TokenCounts`, by `count_tokens`, give weights (with `whiten=0`); `Moments`, of the `pieces` of a
            model that has its weights, give the map (with `weights=None`).
        weights: `idf` (`ln((N + 1) / (n + 0.5))` of documents), `sif` (`a / (a + share of the token)`), or None.
        whiten: the power of the map, from 0 (no map) to 1 (full whitening).
        queries: at least 10 example queries without judgements, such as those of a log. Queries are then centred on
            their own mean. Never give queries that a score is computed on.
        max_tokens: documents are drawn until they have as many tokens.
        seed: of this draw.
        device: where the model goes. Default: the best device of this machine.
        dtype: the compute type of a base that is given by its name. Default: that of its files; but if documents take
            about a minute or more in fp32, a base without a strategy reads them in bf16 where that is at least twice as
            fast on this machine and vectors agree (mean cosine .999). The result keeps its type.
        show_progress_bar: show how many documents are counted and encoded.
        transform: another map of `heads/transforms.py` in the place of `whiten`, by its own name, such as `centre=0.5`.

    Returns:
        A new model. Its revision is a digest of all that it is.

    Raises:
        InputError: if a setting breaks its rule, a document is no text, the documents have no token, or sums do not
            fit the model.
        NumberError: if a vector is not finite.
        LongEmbedError: for the same reasons as `load`.
    """
    if weights is not None and weights not in RULES:
        raise InputError(f"weights must be one of {', '.join(RULES)}, or None, got {weights!r}.")
    key, setting = _asked_transform(whiten, transform)
    _check_sums(documents, weights, key, setting)
    asked = None
    if queries is not None:
        asked = list(read_given("queries", queries))
        if not setting:
            raise InputError(
                "queries centre the queries of a map, so they need whiten= above 0: leave them out."
            )
    model = loaded(base, device, dtype)
    card = model.model_card_data
    known_as = str(card.model_name or card.base_model or ("model" if base is model else base))
    if setting and isinstance(model, MultiVectorEncoder):
        raise InputError(
            f"{key} makes a map for one vector a text, got a model with several: give {key}=0, or write {key}= into "
            "the name of a search."
        )
    texts, amount = _read(documents, model, max_tokens, seed)
    head = Head.of(model)
    counts: TokenCounts | None = None
    if weights is not None and _averages(head):
        counts = _counts(model, documents, texts, show=show_progress_bar)
        head = head.weighted(TokenWeights.of_corpus(counts, weights, model.tokenizer))
    if setting:
        unscaled = head.unscaled()
        of_queries = None
        if asked is not None:
            plain = cast("SentenceTransformer", with_uncut(model, unscaled))
            of_queries = np.asarray(plain.encode_query(asked))
        made_map: Transform
        if isinstance(documents, Moments):
            _check_moments(documents, with_uncut(model, unscaled))
            made_map = Whitening.fit(documents, setting, of_queries)
        else:
            reader = model if dtype is not None else _reader(base, model, texts, device)
            rows = pieces(keeping(with_uncut(reader, head)), texts, show=show_progress_bar)
            made_map = TRANSFORMS[key].fit(rows, setting, of_queries)
            _warn_of_few(len(texts), len(rows))
        head = replace(unscaled, behind=(*unscaled.behind, *made_map.modules()))
    made = with_head(model, head, stock=True)
    if setting:
        made.similarity_fn_name = "cosine"
    if isinstance(made, LongModelMixin):
        made.checkpoint = None
        made.store = None
    elif not head.has_exact_stock:
        logger.warning(
            "the base has a Dense with an activation behind its pooling, and stock modules count the weights of "
            "prompts: vectors of texts with a long prompt are not exact; adapt(load(%r), ...) gives exact ones.",
            known_as,
        )
    _describe(made, known_as, weights if counts else None, key, setting, amount)
    return made


def _check_sums(documents: object, weights: str | None, key: str, setting: float) -> None:
    """Refuse sums from which what is asked for does not follow."""
    if isinstance(documents, TokenCounts) and setting:
        raise InputError(
            f"counts of tokens give weights and no map, got {key}={setting:g}: add {key}=0, and fit the map in a "
            "second call, on the Moments of pieces of the model that has the weights."
        )
    if not isinstance(documents, Moments):
        return
    if weights is not None:
        raise InputError(
            f"moments give a map and no weights, got weights={weights!r}: add weights=None, after a call that fits the "
            "weights on TokenCounts."
        )
    if key != "whiten":
        raise InputError(f"moments are what whiten is fitted on, got {key}: give documents.")


def _read(
    documents: Iterable[str] | TokenCounts | Moments, model: Model, max_tokens: int, seed: int
) -> tuple[list[str], str]:
    """The texts that are read, none of sums; and in words how much was read. If it is not all, say so."""
    if isinstance(documents, Moments):
        return [], f"{documents.n:,} pieces of documents"
    if isinstance(documents, TokenCounts):
        return [], f"{documents.n_documents:,} documents"
    drawn = draw(read_given("documents", documents), getattr(model, "max_seq_length", None), max_tokens, seed)
    if not any(text.strip() for text in drawn.texts):
        raise InputError(
            "adapting needs a corpus with at least 1 token, got 0: give documents that have text."
        )
    if len(drawn.texts) < drawn.n_documents:
        logger.warning(
            "adapting reads %s of %s documents, drawn with seed %d: they have max_tokens=%s tokens.",
            f"{len(drawn.texts):,}",
            f"{drawn.n_documents:,}",
            seed,
            f"{max_tokens:,}",
        )
    return drawn.texts, f"{len(drawn.texts):,} documents"


def _counts(model: Model, documents: object, texts: list[str], *, show: bool) -> TokenCounts:
    """The counts of the tokens of texts, or those that were given."""
    if not isinstance(documents, TokenCounts):
        return count_tokens(model, texts, show=show)
    known = vocabulary_of(model)
    if len(documents.tokens) != known:
        raise InputError(
            f"counts must be of this model, which has {known} tokens, got {len(documents.tokens)}: count with "
            "this model."
        )
    return documents


def _check_moments(moments: Moments, model: Model) -> None:
    """Raise InputError for moments that are not those of a model's exact vectors."""
    width = model.get_embedding_dimension()
    if len(moments.total) != width:
        raise InputError(
            f"moments must be of this model, which has {width} dimensions, got {len(moments.total)}: encode with this "
            "model."
        )
    weights = Head.of(model).weights
    if weights is not None and not isinstance(weights, TokenWeights):
        raise InputError(
            f"moments need a model of this package, got the weights of a {type(weights).__name__}, which counts "
            "prompts: fit the weights on load(NAME)."
        )


def _asked_transform(whiten: float, others: Mapping[str, float]) -> tuple[str, float]:
    """The one map that a call asks for, and its checked setting; 0 for none."""
    for key in others:
        if key not in TRANSFORMS:
            raise InputError(f"adapt takes the maps {', '.join(TRANSFORMS)}, got {key}.")
    key, value = next(iter(others.items()), ("whiten", whiten))
    return key, TRANSFORMS[key].read(value) if value else 0.0


def _averages(head: Head) -> bool:
    """Whether the tokens of a model can have weights. If not, say so."""
    if head.mode == "mean":
        return True
    logger.warning("the model has %s pooling, so tokens get no weights.", head.mode)
    return False


def _warn_of_few(n_documents: int, n_pieces: int) -> None:
    if n_documents < FEW_DOCUMENTS or n_pieces < FEW_PIECES:
        logger.warning(
            "a map of vectors was fitted on %d pieces of %d documents: with fewer than %d pieces or %d documents do "
            "not count on a gain, and on some collections it was a loss (docs/adapt.md).",
            n_pieces,
            n_documents,
            FEW_PIECES,
            FEW_DOCUMENTS,
        )


def _reader(base: str | Path | Model, model: Model, texts: list[str], device: str | None) -> Model:
    """The model that encodes the pieces: the given one, or a stock base in bf16 if that is better for these texts.

    A search with one of our models reads the same rows in the type of the model.
    """
    if not isinstance(base, (str, Path)) or isinstance(model, LongModelMixin):
        return model
    why = why_bf16(ModelSpec.parse(str(base)), texts, device)
    if why is None:
        return model
    logger.warning("%s", why)
    return loaded(base, device, "bf16")


def loaded(base: str | Path | Model, device: str | None, dtype: str | None = None) -> Model:
    """The model: of sentence-transformers' own classes, unless its name asks for a strategy."""
    if isinstance(base, (SentenceTransformer, MultiVectorEncoder)):
        check_unset(dtype=dtype)
        return base if device is None else base.to(device)
    if not isinstance(base, (str, Path)):
        raise InputError(
            f"adapt takes a name, a folder or a SentenceTransformer, got a {type(base).__name__}."
        )
    spec = ModelSpec.parse(str(base))
    checkpoint = open_checkpoint(replace(spec, dtype=dtype or spec.dtype))
    is_plain = ModelSpec(spec.base, revision=spec.revision) == spec and checkpoint.base.saved_as is None
    if is_plain:
        return cast("Model", load_base(checkpoint.base, dtype, device))
    return load(base, device=device, model_kwargs={"dtype": dtype or "auto"})


def _describe(model: Model, base: str, rule: str | None, key: str, setting: float, read: str) -> None:
    """Say in the model's name and on its card what was fitted. The revision is a digest: no other model has it."""
    card = model.model_card_data
    short = base.replace("\\", "/").rstrip("/").rpartition("/")[2]
    parts = []
    if rule is not None:
        parts.append(f"tokens count by their rarity ({rule})")
    if setting and key == "whiten":
        parts.append(f"vectors are whitened (power {setting:g})")
    elif setting:
        parts.append(f"vectors are mapped ({key}={setting:g})")
    how = f"{' and '.join(parts) or 'nothing was fitted'}, by {read}"
    card.model_name = f"local/{short}-adapted"
    card.base_model = base
    card.base_model_revision = f"{digest(model)}-{ALGORITHM}"
    card.add_tags([ADAPTED])
    if not isinstance(model, LongModelMixin):
        # what sentence-transformers writes instead of a card of its own
        cast("Any", model)._model_card_text = adapted_card(card.model_name, base, how)
