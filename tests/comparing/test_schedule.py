"""How much a comparison says that it will encode, and how much it does; what commands encode for each other."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import mteb_longembed
from mteb_longembed.encoders.batching import Engine
from tests import tiny

PARTS = [tiny.text(40, seed, words=400) for seed in range(9 * 24)]
DOCUMENTS = {f"d{seed}": " ".join(PARTS[9 * seed : 9 * seed + 8]) for seed in range(24)}
QUERIES = {f"q{seed}": DOCUMENTS[f"d{seed}"][:30] for seed in range(8)}
QRELS = {f"q{seed}": {f"d{seed}": 1} for seed in range(8)}


class Meter:
    """The tokens of documents that models encode, and an interrupt after some of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.n_tokens = 0
        self.most = float("inf")
        forward = Engine._forward

        def counted(engine: Engine, ids: Any) -> Any:
            if self.n_tokens >= self.most:
                raise KeyboardInterrupt
            if engine.kwargs.get("task") == "document":
                self.n_tokens += sum(map(len, ids))
            return forward(engine, ids)

        monkeypatch.setattr(Engine, "_forward", counted)
        monkeypatch.setattr("mteb_longembed.encoders.batching.tokens_at_once", lambda device: 600)


@pytest.fixture
def meter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meter:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path / "cache"))
    return Meter(monkeypatch)


def test_what_is_left_after_an_interrupt_is_what_the_same_call_encodes(
    base: str, meter: Meter, tmp_path: Path
) -> None:
    data = {"corpus": DOCUMENTS, "queries": QUERIES, "qrels": QRELS}
    said, ran = [], []
    for most in (1, 900, 3_000, 2_000, 1_500, float("inf")):
        messages: list[str] = []
        meter.n_tokens, meter.most = 0, most
        options = {"quick": True, "output_folder": tmp_path / "out", "on_message": messages.append}
        with suppress(KeyboardInterrupt):
            mteb_longembed.compare(base, **data, **options, device="cpu", show=True)
        (left,) = re.findall(r"([\d,]+)(?: of [\d,]+)? tokens to encode", " ".join(messages))
        said.append(int(left.replace(",", "")))
        ran.append(meter.n_tokens)
    assert len(said) == 6 and said[0] > 2 * said[-1] > 0
    for number, left in enumerate(said):
        assert left == pytest.approx(sum(ran[number:]), rel=0.1)


def test_a_quick_comparison_encodes_no_document_that_a_search_has_encoded(
    base: str, meter: Meter, tmp_path: Path
) -> None:
    searcher = mteb_longembed.search(base, device="cpu")  # the recommended hybrid
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    assert searcher.search(QUERIES["q0"])
    of_search, meter.n_tokens = meter.n_tokens, 0
    data = {"corpus": DOCUMENTS, "queries": QUERIES, "qrels": QRELS}
    options = {"quick": True, "output_folder": tmp_path / "out", "device": "cpu", "show": False}
    compared = mteb_longembed.compare(base, **data, **options)
    assert {"base", "+windows", "+late", "+hybrid"} <= set(compared.summary["label"])
    # only the base, which reads the first tokens of each document
    assert of_search > 24 * 300 and meter.n_tokens == 24 * 16
