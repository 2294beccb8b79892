import html
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from mteb_longembed.reports import html_page
from mteb_longembed.reports.figures import heat_maps, strategies
from mteb_longembed.reports.scores.base_groups import group_by_base
from mteb_longembed.reports.tables.paper_tables import main_tables
from mteb_longembed.reports.tables.table import Cell, Table
from mteb_longembed.reports.writers import WRITERS
from tests.environments import CAPTURED
from tests.reports.made import BASE, lines

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, _BROWSERS)), None)
FOLDED = Table.of("public", "Public", ("Model",), ((Cell("org/public"),),), is_folded=True)


@pytest.fixture(scope="module")
def page():
    made = lines({f"{BASE}+none@512": 0.3, f"{BASE}+pi@4096": 0.5, f"{BASE}+<b>@1": 0.4})
    drawings = heat_maps.draw(made)
    facts = [("Written", "2026-01-02")]
    many = tuple((Cell(f"org/m{i}"), Cell(str(i), i)) for i in range(20))
    tables = [*main_tables(made), Table.of("many", "Many", ("Model", "Score"), many), FOLDED]
    return html_page.write(
        html_page.Page(
            title="LongEmbed report",
            tables=tables,
            drawings=drawings,
            problems=["skipped a <file>"],
            facts=facts,
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


def test_only_marks_that_are_on_the_page_are_explained():
    assert not re.search("<dt[> ]", html_page.write(html_page.Page(title="x", tables=[FOLDED])))
    marked = Table.of("marked", "Marked", ("Score",), ((Cell("5.0", 5.0, is_best=True),),))
    written = html_page.write(html_page.Page(title="x", tables=[marked]))
    assert re.findall("<dt(.*?)>", written) == [' class="best"']


def test_ids_are_unique_and_every_reference_has_one(page):
    parsed = _Ids(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    referred = {link[1:] for link in parsed.links} | set(re.findall(r"url\(#([^)]+)\)", page))
    assert {"main-generated", "public", "heatmap-needle-generated"} < referred <= set(parsed.ids)


def test_the_page_opens_with_its_facts_and_a_legend(page):
    assert page.index('id="overview"') < page.index('class="legend"') < page.index('id="main-generated"')
    assert "<dt>Written</dt><dd>2026-01-02</dd>" in page


def test_only_what_is_folded_has_its_rows_behind_a_click(page):
    folded = re.findall("<details>.*?</details>", page, re.DOTALL)
    assert len(folded) == 1 and "org/<wbr>public" in folded[0]
    assert "<summary>1 rows</summary>" in folded[0]


def test_figures_have_the_pages_colours():
    made = lines({f"{BASE}+none@512": 0.3, f"{BASE}+pi@4096": 0.5})
    drawings = [*strategies.draw(group_by_base(made)[0]), *heat_maps.draw(made)]
    page = html_page.write(html_page.Page(title="x", drawings=drawings))
    pictures = page[page.index("<figure") :]
    assert "#000000" not in pictures
    assert "stroke: var(--ink)" in pictures and "stroke: var(--line)" in pictures
    assert "fill: #111111" in pictures  # numbers on pale cells stay dark on a dark page
    background = re.search(r'<g id="[^"]*patch_1">.*?style="([^"]*)"', pictures, re.DOTALL)
    assert background and background[1] == "fill: none"


def test_only_long_tables_have_a_field_to_search(page):
    assert page.count('type="search"') == 1
    assert page.index('id="many"') < page.index('type="search"')


def test_cells_carry_their_value_and_interval_and_names_are_escaped(page):
    assert "50.0<small>[45,55]</small>" in page  # 50 % of fifty queries at eight lengths
    assert "<b>" not in page
    assert "skipped a &lt;file&gt;" in page
    assert 'data-value="50.0" data-tip="50.000' in page
    assert f"{BASE}+pi@4096, 256 tokens: 50.0 %, 95 % interval 37 to 63" in page


# Clicks on "Average" twice, then moves the mouse over the first cell of the first figure.
_PROBE = """
<script>
const heads = [...document.querySelectorAll("thead button")];
const rows = () => [...document.querySelectorAll("#main-generated tbody tr")];
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
    assert 'data-shown="intfloat/e5-base-v2+pi@4096, 256 tokens: 50.0 %, 95 % interval 37 to 63"' in dom


def test_a_part_of_a_cell_is_marked_and_escaped_around_it() -> None:
    cells = (Cell("<b>1 & 2</b>", marked=(3, 8)), Cell("1.0", 1.0))
    tables = [Table.of("t", "T", ("passage", "points"), (cells,))]
    assert ">&lt;b&gt;<mark>1 &amp; 2</mark>&lt;/<wbr>b&gt;</td>" in html_page.write(
        html_page.Page(title="x", tables=tables)
    )
    for name, (write, _) in WRITERS.items():
        assert "mark" not in write(tables), name


def test_a_folded_table_is_open_if_it_is_the_only_one() -> None:
    assert "<details open>" in html_page.write(html_page.Page(title="x", tables=[FOLDED]))
    assert "<details open>" not in html_page.write(html_page.Page(title="x", tables=[FOLDED, FOLDED]))


def test_texts_of_others_have_no_control_characters_wherever_they_stand() -> None:
    odd = "a\x1b[31m\udcff"
    page = html_page.Page(
        title=odd, answer=html_page.Answer("Use it.", odd, (odd,)), cautions=[odd], conclusions=[odd],
        problems=[odd], facts=[(odd, odd)], links=[("other.html", odd)],
    )  # fmt: skip
    text = html_page.write(page)
    assert "\x1b" not in text and text.encode()
    assert text.count("a\ufffd[31m\ufffd") == 9
