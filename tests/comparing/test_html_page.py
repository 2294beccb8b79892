import html
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from mteb_longembed.comparing.drawing import Drawing, draw_lines, new_drawing, style
from mteb_longembed.comparing.html_page import Answer, Page, write
from mteb_longembed.comparing.table import Cell, Table
from mteb_longembed.statistics.intervals import Interval
from tests.environments import CAPTURED

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, _BROWSERS)), None)
BASE = "intfloat/e5-base-v2"
ANSWER = Answer("Use it.", "", ())
FOLDED = Table.of("public", "Public", ("Model",), ((Cell("org/public"),),), is_folded=True)
SCORES = (("none@512", 30.0), ("pi@4096", 50.0), ("<b>@1", 40.0))


def _drawing() -> Drawing:
    drawing, (axes,) = new_drawing("lengths", "By length", 5, 4)
    scores = {256: Interval(50.0, 37.0, 63.0), 512: Interval(40.0, 30.0, 50.0)}
    draw_lines(drawing, axes, [("a", scores, {256: f"{BASE}, 256 tokens: 50.0", 512: "<i>"}, style(0))])
    drawing.legend(axes)
    return drawing


@pytest.fixture(scope="module")
def page():
    rows = []
    for name, score in SCORES:
        cell = Cell(str(score), score, interval=(score - 5, score + 5))
        rows.append((Cell(f"{BASE}+{name}"), cell))
    many = tuple((Cell(f"org/m{i}"), Cell(str(i), i)) for i in range(20))
    tables = [
        Table.of("main", "Main", ("Model", "Average"), rows),
        Table.of("many", "Many", ("Model", "Score"), many),
        FOLDED,
    ]
    return write(
        Page(
            title="Comparison",
            answer=ANSWER,
            tables=tables,
            drawings=[_drawing()],
            problems=["skipped a <file>"],
            facts=[("Written", "2026-01-02")],
        )
    )


class _Ids(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href", "src"):
                self.links.append(value)


def test_nothing_is_loaded_from_elsewhere(page):
    parsed = _Ids(page)
    assert all(link.startswith("#") for link in parsed.links)
    assert "default-src 'none'" in page
    assert not re.search(r"@import|url\((?!#)", page)


def test_ids_are_unique_and_every_reference_has_one(page):
    parsed = _Ids(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {"main", "public", "lengths"} < set(parsed.ids)
    referred = {link[1:] for link in parsed.links} | set(re.findall(r"url\(#([^)]+)\)", page))
    assert referred <= set(parsed.ids)


def test_the_page_opens_with_its_answer_and_ends_with_its_facts(page):
    places = [
        page.index(f'{name}"') for name in ('class="answer', 'class="legend', 'id="main', 'id="overview')
    ]
    assert places == sorted(places)
    assert "<dt>Written</dt><dd>2026-01-02</dd>" in page


def test_only_what_is_folded_has_its_rows_behind_a_click(page):
    folded = re.findall("<details>.*?</details>", page, re.DOTALL)
    assert len(folded) == 1 and "org/<wbr>public" in folded[0]
    assert "<summary>1 rows</summary>" in folded[0]


def test_figures_have_the_pages_colours(page):
    pictures = page[page.index("<figure") : page.index("</figure>")]
    assert "#000000" not in pictures
    assert "stroke: var(--ink)" in pictures and "stroke: var(--line)" in pictures
    background = re.search(r'<g id="[^"]*patch_1">.*?style="([^"]*)"', pictures, re.DOTALL)
    assert background and background[1] == "fill: none"


def test_only_long_tables_have_a_field_to_search(page):
    assert page.count('type="search"') == 1
    assert page.index('id="many"') < page.index('type="search"')


def test_cells_carry_their_value_and_interval_and_names_are_escaped(page):
    assert "50.0<small>[45,55]</small>" in page
    assert "<b>" not in page and "<i>" not in page
    assert "skipped a &lt;file&gt;" in page
    assert 'data-value="50.0" data-tip="50.000' in page
    assert f"{BASE}, 256 tokens: 50.0" in page


# Clicks on "Average" twice, then moves the mouse over the first cell of the first figure.
_PROBE = """
<script>
const heads = [...document.querySelectorAll("thead button")];
const rows = () => [...document.querySelectorAll("#main tbody tr")];
const names = () => rows().map((row) => row.cells[0].textContent).join(" ");
const average = heads.find((button) => button.textContent === "Average");
average.click(); average.click();
document.body.dataset.sorted = names();
document.querySelector("figure [data-tip]").dispatchEvent(new MouseEvent("mousemove", {bubbles: true}));
const field = document.querySelector("input[type=search]");
field.value = "m1 org"; field.dispatchEvent(new Event("input"));
const hits = [...field.closest("section").querySelectorAll("tbody tr")].filter((row) => !row.hidden);
document.body.dataset.hits = hits.length + ": " + field.closest("p").querySelector("output").textContent;
document.body.dataset.wide = document.documentElement.scrollWidth <= innerWidth;
const boxes = [...document.querySelectorAll("section .wide")];
document.body.dataset.boxes = boxes.every((box) => box.scrollWidth <= box.clientWidth);
document.body.dataset.shown = document.getElementById("tip").textContent;
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_a_browser_sorts_the_table_and_shows_values_under_the_mouse(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page.replace("</body>", _PROBE + "</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=420,900", "--dump-dom"]
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run([BROWSER, *flags, path.as_uri()], env=env, check=True, **CAPTURED)
    dom = html.unescape(done.stdout)
    assert f'data-sorted="{BASE}+none@512 {BASE}+<b>@1 {BASE}+pi@4096"' in dom
    assert 'data-hits="11: 11 of 20 rows"' in dom
    assert 'data-wide="true"' in dom  # nothing runs out of a narrow window, but figures in boxes that scroll
    assert 'data-boxes="true"' in dom  # tables wrap
    assert 'data-shown="intfloat/e5-base-v2, 256 tokens: 50.0"' in dom


def test_a_part_of_a_cell_is_marked_and_escaped_around_it() -> None:
    cells = (Cell("<b>1 & 2</b>", marked=(3, 8)), Cell("1.0", 1.0))
    tables = [Table.of("t", "T", ("passage", "points"), (cells,))]
    text = write(Page(title="x", answer=ANSWER, tables=tables))
    assert ">&lt;b&gt;<mark>1 &amp; 2</mark>&lt;/<wbr>b&gt;</td>" in text


def test_texts_of_others_have_no_control_characters_wherever_they_stand() -> None:
    odd = "a\x1b[31m\udcff"
    page = Page(
        title=odd, answer=Answer("Use it.", odd, (odd,)), cautions=[odd], conclusions=[odd],
        problems=[odd], facts=[(odd, odd)], links=[("other.html", odd)],
    )  # fmt: skip
    text = write(page)
    assert "\x1b" not in text and text.encode()
    assert text.count("a\ufffd[31m\ufffd") == 9
