from typing import Any

import numpy as np

import mteb_longembed
from mteb_longembed.encoders.speed import measure
from tests import tiny


def test_only_a_new_model_runs_once_before_the_clock_and_nothing_is_stored(folder, monkeypatch) -> None:
    model: Any = mteb_longembed.load(f"{folder}+gp@64")
    texts, encoded, stores = [tiny.text(60, 1), tiny.text(9, 2)], [], []

    def recorded(given: list[str], **kw: Any) -> Any:
        encoded.append(list(given))
        stores.append(model.embedding_cache)
        return type(model).encode_document(model, given, **kw)

    monkeypatch.setattr(model, "encode_document", recorded)
    store = model.embedding_cache
    assert measure(model, texts)[0] > 0
    short = encoded.pop(0)
    assert encoded == [texts] and len(short) == 1 and texts[0].startswith(short[0])
    assert 4.5 * 16 <= len(short[0]) < len(texts[0])  # longer than the trained length of 16 tokens
    assert stores == [None] * 2 and model.embedding_cache is store


def test_a_vector_has_the_bytes_that_the_search_keeps(folder) -> None:
    texts = [tiny.text(40, 1), tiny.text(9, 2)]
    for tail in ("gp@64", "gp@64:vectors=5"):
        model: Any = mteb_longembed.load(f"{folder}+{tail}")
        rate, size = measure(model, texts)
        assert rate > 0 and size == np.atleast_2d(np.asarray(model.encode_document(texts)[0]))[0].nbytes
