"""mteb's leaderboard shows our models, offline and in a real browser."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import mteb
import pandas as pd
import pytest

from mteb_longembed import cli
from mteb_longembed.errors import DataError, InputError, UnknownNameError
from mteb_longembed.plugin.leaderboard import board

from ..results import write_results

NAME = "org/base+pi@4096"
PLUS = {"LongEmbedPasskey": 0.4321, "LongEmbedNeedle": 0.25}


def published() -> dict[str, float]:
    return {task.metadata.name: 0.6789 for task in mteb.get_benchmark("LongEmbed").tasks}


# ---- the two errors ----------------------------------------------------------------------------------------


def test_groups_whose_names_are_numbers_keep_their_headings() -> None:
    from mteb.benchmarks._create_table import _split_on_capital

    stock = getattr(_split_on_capital, "__wrapped__", _split_on_capital)
    names = ["__cg__Length::256", "__cg__Length::512"]
    assert stock(names[0]) == stock(names[1]), "mteb has mended it: drop heading_with_digits"
    headings = [board.heading_with_digits(stock, name) for name in (*names, "BitextMining")]
    assert headings[:2] == ["256 (Length)", "512 (Length)"]
    assert headings[2] == stock("BitextMining") == "Bitext Mining"


def test_the_column_of_experiments_is_no_score() -> None:
    seen: list[pd.DataFrame] = []
    frame = pd.DataFrame({"Model": ["a/b", "c/d"], "_experiment_id": ["", "x=1"], "Mean (Task)": [0.5, 0.25]})
    board.style_without_experiments(seen.append, frame)
    assert list(seen[0].columns) == ["Model", "Mean (Task)"]
    assert list(seen[0]["Model"]) == ["a/b", "c/d (x=1)"]
    assert "_experiment_id" in frame.columns, "mteb's own table stays as it is"


# ---- what is shown -----------------------------------------------------------------------------------------


def test_the_named_benchmarks_with_results_are_shown_the_first_one_first(tmp_path: Path, capsys) -> None:
    write_results(tmp_path, NAME, PLUS, splits=["test_256"])
    assert board.benchmarks_with_results(tmp_path, board.BENCHMARKS) == ["LongEmbed+"]
    assert cli.main(["leaderboard", str(tmp_path), "-b", "LongEmbed+", "LongEmbed"]) == 2
    assert "unknown benchmark with results 'LongEmbed'" in capsys.readouterr().err
    write_results(tmp_path, "org/other+se@4096", published())
    for named in (list(board.BENCHMARKS), ["LongEmbed", "LongEmbed+"]):
        assert board.benchmarks_with_results(tmp_path, named) == named[:2]
    with pytest.raises(UnknownNameError, match="unknown benchmark"):
        board.benchmarks_with_results(tmp_path, ["LongEmbad"])


def test_results_of_other_tasks_are_told(tmp_path: Path) -> None:
    write_results(tmp_path, NAME, {"ArguAna": 0.5})
    with pytest.raises(DataError, match=r"must hold results of LongEmbed\+ or LongEmbed .*got results of"):
        board.benchmarks_with_results(tmp_path, board.BENCHMARKS)


def test_missing_packages_are_told_in_one_sentence(tmp_path: Path, monkeypatch) -> None:
    write_results(tmp_path, NAME, PLUS, splits=["test_256"])
    monkeypatch.setitem(sys.modules, "gradio", None)
    for name in [name for name in sys.modules if name.startswith("mteb.leaderboard")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(InputError, match=r"pip install 'mteb\[leaderboard\]'"):
        board.make_board(tmp_path)


def test_models_that_ran_parts_of_tasks_are_told_with_these_tasks(tmp_path: Path) -> None:
    write_results(tmp_path, NAME, PLUS, splits=["test_256"])
    write_results(tmp_path, "org/whole", PLUS)
    partial = board.without_complete_task(tmp_path, ["LongEmbed+"])
    assert partial == {NAME: ["LongEmbedNeedle", "LongEmbedPasskey"]}
    write_results(tmp_path, NAME, {"LongEmbedPasskey": 0.5}, revision="later-le2")
    assert board.without_complete_task(tmp_path, ["LongEmbed+"]) == {}


# ---- in a browser ------------------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_our_model_with_its_score(tmp_path: Path) -> None:
    pytest.importorskip("gradio")
    playwright = pytest.importorskip("playwright.sync_api")
    write_results(tmp_path, NAME, PLUS)
    write_results(tmp_path, "org/parts+se@4096", PLUS, splits=["test_256"])
    write_results(tmp_path, "me/e5-base-se", {**PLUS, **published()})
    write_results(tmp_path, "org/stock", published(), revision="abc")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mteb_longembed", "leaderboard", str(tmp_path), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        output = ""
        for line in server.stdout:
            output += line
            if line.startswith("http://127.0.0.1:"):
                break
        assert server.poll() is None, output
        with playwright.sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1600, "height": 1100})
            for _ in range(60):
                try:
                    page.goto(f"http://127.0.0.1:{port}", wait_until="domcontentloaded", timeout=60_000)
                    break
                except playwright.Error:
                    page.wait_for_timeout(1000)
            page.get_by_text("base+pi@4096").first.wait_for(timeout=240_000)
            headings = page.locator("th").all_inner_texts()
            assert {"256 (Context Length)", "32K (Context Length)"} <= set(headings), headings
            row = page.locator("tr", has_text="base+pi@4096").first.inner_text()
            assert re.search(r"\b34\.10?\b", row), row
            assert "parts+se" not in page.inner_text("body")
            assert "org/parts+se@4096 has results of some" in output
            page.screenshot(path=str(tmp_path / "plus.png"))
            page.get_by_role("button", name="Long-context Retrieval", exact=True).first.click()
            page.locator("tr", has_text="67.89").first.wait_for(timeout=240_000)
            text = page.inner_text("body")
            assert "e5-base-se" in text and "stock" in text
            page.screenshot(path=str(tmp_path / "published.png"))
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=60)
    assert not (tmp_path / "leaderboard").exists(), "nothing is written beside the results"
