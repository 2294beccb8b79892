"""Open a search: by the name of a model, or from the folder of a saved index."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

from mteb_longembed.encoders.method import Method
from mteb_longembed.errors import IndexFolderError, InputError
from mteb_longembed.names import absolute_name, is_lexical
from mteb_longembed.values import Precision

from .index import Index
from .recommended import recommended
from .scorer import Scorer
from .searcher import Searcher
from .storage import Reader


def open_index(folder: str | Path, *, device: str | None = None, passages: bool = True) -> Searcher:
    """Open a saved index. Its files are mapped into memory; nothing is encoded or counted again.

    An index of BM25 without query expansion opens without torch, transformers and mteb.

    Args:
        folder: a folder written by `Searcher.save` or `mteb-longembed index`.
        device: device of the model; default the best device of this machine.
        passages: as for `search`.

    Raises:
        IndexFolderError: if the folder holds no index, one of another format, model or version, or damaged files.
        LongEmbedError: for the same reasons as `load`.
    """
    reader = Reader(Path(folder).absolute())
    name = reader.manifest.name
    scorer = _scorer_of(name, device)
    if scorer.revision != reader.manifest.revision:
        raise IndexFolderError(
            f"the index in {reader.folder} was built with revision {reader.manifest.revision} of {name}, got "
            f"{scorer.revision}: build it again."
        )
    versions = scorer.versions if isinstance(scorer, Index) else {}
    for component, version in versions.items():
        built_with = reader.manifest.versions.get(component)
        if built_with != version:
            raise IndexFolderError(
                f"the index in {reader.folder} was built with version {built_with} of {component}, and this is "
                f"{version}: build it again."
            )
    return Searcher(scorer, passages=passages, name=name, saved=reader)


def _pickled(searcher: Searcher) -> tuple[Callable[[Path], Searcher], tuple[Path]]:
    """Return how another process opens the folder of a saved searcher."""
    if searcher.folder is None:
        raise InputError(
            "only a saved searcher can be pickled, because its files are temporary: save it first."
        )
    return partial(open_index, passages=searcher.shows_passages), (searcher.folder,)


# here, so that the searcher itself need not know how it is opened
copyreg.pickle(Searcher, _pickled)


def search(
    name: str,
    *,
    device: str | None = None,
    passages: bool = True,
    language: str | None = None,
    precision: Precision | None = None,
) -> Searcher:
    """Search your own documents by the name of a model. docs/search.md has recipes for databases.

    `add(ids, texts)` and `read(source)` add documents, `search(query, k=10)` finds them. Its scorer in
    `mteb_longembed.plugin.search.MTEBSearch` has mteb's search protocol.

    Args:
        name: `BASE+STRATEGY[@TARGET][:key=value,...]`, with or without search settings; a folder; or any name that
            mteb knows. A model alone means its recommended preset, as for the command; `+none` is the model as it is.
        device: device of the model; default the best device of this machine.
        passages: whether hits show the best short window of the text that was read, if vectors have no text of their
            own: one vector, late interaction, sparse vectors. The model encodes the windows of a document when it is
            shown for the first time.
        language: language of BM25's stop words and stems, as in mteb, such as `zho-Hans`. Default: English.
        precision: how vectors are stored: `fp32`, `int8` in about a quarter of the bytes, or `4bit` in an eighth.
            Default: `int8` where a query has a vector for each token, which loses nothing, and else `fp32`.

    Returns:
        An empty searcher. Its `read` and `add` log a warning if the model does not read a tenth of the text or more.

    Raises:
        InputError: if the language is not known.
        LongEmbedError: for the same reasons as `load`.
        ModelError: if mteb cannot load the model.

    Example:
        >>> searcher = mteb_longembed.search("mini-rope+pcw@32k:vectors=window")  # doctest: +SKIP
        >>> searcher.add(["a", "b"], ["The key is under the mat.", "The cat is on it."])  # doctest: +SKIP
        >>> searcher.search("Where is the key?", k=1)[0].id  # doctest: +SKIP
        'a'
    """
    if language is not None:
        from mteb_longembed.data.task import check_language

        check_language(language)
    name = recommended(name)
    scorer = _scorer_of(name, device)
    if precision is not None:
        store_as(scorer, precision)
    return Searcher(scorer, passages=passages, language=language, name=absolute_name(name))


def _scorer_of(name: str, device: str | None) -> Scorer:
    """Return the scorer of a name. BM25 without a model needs no torch."""
    if is_lexical(name):
        return Index.of_bm25(Method.parse(name))
    from .make import make_scorer

    return make_scorer(name, device)


def store_as(scorer: Scorer, precision: Precision) -> None:
    """Store the vectors of a new scorer at a precision.

    Raises:
        InputError: if there is no such precision, or the scorer keeps no dense vectors.
    """
    if precision not in get_args(Precision):
        raise InputError(f"precision must be one of {', '.join(get_args(Precision))}, got {precision!r}.")
    if not isinstance(scorer, Index):
        raise InputError(
            f"a precision is one of dense vectors, got {precision} with {scorer.name}: leave it out."
        )
    scorer.store_as(precision)
