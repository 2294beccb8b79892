"""The bar of a comparison: its total is the whole from the start, and it is not full before all is read."""

import random
from pathlib import Path
from typing import Any

import pytest

from mteb_longembed.comparing import compare as comparing
from mteb_longembed.comparing.bar import RunBar
from mteb_longembed.data.task import beir_task
from tests import tiny
from tests.comparing.conftest import compare
from tests.own_data import beir


def blanks(seed: int) -> str:
    """Two sentences."""
    return f"{tiny.text(30, seed).capitalize()}. {tiny.text(30, seed + 99).capitalize()}."


def no_blanks(seed: int) -> str:
    draw = random.Random(seed)
    return "".join(chr(0x4E00 + draw.randrange(400)) for _ in range(200))


@pytest.mark.parametrize(
    ("text", "language", "with_store"), [(blanks, "eng-Latn", "0"), (no_blanks, "zho-Hans", "store")]
)
def test_the_total_is_the_whole_and_is_reached_by_the_last_that_reads(
    text: Any, language: str, with_store: str, base: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_STORE", "0" if with_store == "0" else str(tmp_path / "store"))
    seen: list[tuple[float, float, str]] = []

    class Recorded(RunBar):
        def update(self, n: float = 1) -> None:
            super().update(n)
            seen.append((self.n, self.total, self.desc))

    monkeypatch.setattr(comparing, "RunBar", Recorded)
    texts = [text(seed) for seed in range(12)]
    queries = [t[:40] if language == "eng-Latn" else t[20:32] for t in texts]
    task = beir_task(beir(tmp_path / "data", texts, queries), language=language)
    found = compare([base], task, tmp_path / "out", bm25=True, show=True, strategies=["pcw", "gp"], target=32)
    assert not found.texts("left out")
    (total,) = {total for _, total, _ in seen}
    reading = [desc for (n, _, desc), before in zip(seen, [(0, 0, ""), *seen], strict=False) if n > before[0]]
    assert [n for n, _, _ in seen] == sorted(n for n, _, _ in seen) and seen[-1][0] == total
    # words first, then the base, windows and the position strategy, which reads last and fills the bar
    assert "neighbours" in reading[0] and "+gp" in reading[-1]


def test_nothing_is_shown_before_the_total_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with RunBar(show=True) as bar:
        assert capsys.readouterr().err == ""
        bar.total += 100
        bar.begin(100)
        bar.finish()
    assert "100/100" in capsys.readouterr().err
