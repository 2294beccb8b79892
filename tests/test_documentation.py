"""What the documentation says is so: tables, messages, links, and every example of `extending.md`."""

import importlib
import json
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path
from unittest import mock

import mteb
import pytest
import torch
from sentence_transformers import SentenceTransformer

from mteb_longembed import cli
from mteb_longembed.encoders.method import Method
from mteb_longembed.encoders.positions import ABSOLUTE, ROTARY
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.tasks.benchmark import make_benchmarks
from tests import tiny
from tests.loopback_hub import LoopbackHub
from tests.loopback_server import serving
from tests.own_data import beir

ROOT = Path(__file__).parents[1]
DOCS, PACKAGE = ROOT / "docs", ROOT / "mteb_longembed"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
PAGES += sorted((ROOT / "experiments").glob("*.md"))


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> dict[str, str]:
    """The titled code of a page."""
    return dict(re.findall(r'```python title="([\w.]+)"\n(.*?)```', page(name), re.DOTALL))


# ---- which strategy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "positions"), [("learned", ABSOLUTE), ("rotary", ROTARY)])
def test_the_table_of_positions_is_what_fits(row, positions) -> None:
    (line,) = re.findall(rf"^\| {row}.*$", page("compare.md"), re.MULTILINE)
    cells = line.split("|")
    for key in re.findall(r"`(\w+)(?:@TARGET)?`", cells[3] + cells[4]):
        assert positions.fits(STRATEGIES[key])
    incompatible = {key for key, strategy in STRATEGIES.items() if not positions.fits(strategy)}
    assert set(re.findall(r"`(\w+)`", cells[5])) == incompatible


# ---- extending -------------------------------------------------------------------------------------------------


def test_the_strategy_of_the_docs_folds_positions(tmp_path, monkeypatch) -> None:
    (tmp_path / "fold.py").write_text(blocks("extending.md")["fold.py"], encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with mock.patch.dict(STRATEGIES):  # the file adds one
        model = importlib.import_module("fold").model
    fold = model[0].strategy
    p = torch.arange(0, 1024)
    ids = fold.position_ids(p, torch.tensor(1024))
    assert ids[511] == 511 and ids[512] == 511 and ids[1023] == 0
    assert model.model_card_data.model_name.endswith("mini-rope+fold@1024")
    assert model.encode(["a word " * 700]).shape == (1, 192)


# ---- serving ---------------------------------------------------------------------------------------------------


def test_the_script_of_serving_shows_where_a_server_cut(tmp_path, monkeypatch, capsys) -> None:
    assert cli.main(["export", "mini-ape+pi@2048:logn=off", str(tmp_path / "e5-base-4k")]) == 0
    monkeypatch.chdir(tmp_path)
    Path("documents").mkdir()
    essays = sorted((ROOT / "mteb_longembed/tasks/generated/data/essays").glob("*.txt"))
    text = " ".join(essay.read_text(encoding="utf-8") for essay in essays[:5])
    Path("documents", "long.txt").write_text(text, encoding="utf-8")
    served = SentenceTransformer("e5-base-4k", device="cpu")
    served.max_seq_length = 256

    def embed(_: str, request: dict) -> str:
        """Answer as an embedding server does, which cuts without a word."""
        return json.dumps({"data": [{"embedding": served.encode(request["input"]).tolist()}]})

    ((name, code),) = blocks("serving.md").items()
    with serving(embed) as address:
        code = code.replace("http://localhost:8080", address).replace(", 4096)", ")")
        capsys.readouterr()
        exec(compile(code, name, "exec"), {})
    assert capsys.readouterr().out.startswith("long.txt cut after 256 {128: 0.")


# ---- more than one machine --------------------------------------------------------------------------------------


def test_a_dis_max_has_the_weight_of_each_term_and_its_expansions() -> None:
    names: dict = {}
    exec(compile(blocks("more-machines.md")["dis_max.py"], "dis_max.py", "exec"), names)
    (clause,) = names["query"]["query"]["bool"]["should"]
    terms = [one["match"]["text"] for one in clause["dis_max"]["queries"]]
    shares = {term["query"]: term["boost"] for term in terms}
    assert shares == names["searcher"].scorer.lexical.weighted_terms("monday")["monday"]
    assert shares["monday"] == 1 and all(0 < share <= 1 for share in shares.values())


def test_each_task_of_the_slurm_script_runs_its_own_name(tmp_path) -> None:
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", page("cookbook.md"), re.DOTALL)
    first, last = re.findall(r"--array=(\d+)-(\d+)", script)[0]
    (tmp_path / "job.sh").write_text(script, encoding="utf-8")
    # what would run for hours
    mteb = tmp_path / "mteb"
    mteb.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$HF_HUB_OFFLINE" "$MTEB_LONGEMBED_CACHE" "$@"\n', encoding="utf-8"
    )
    mteb.chmod(0o755)
    names = []
    for task in range(int(first), int(last) + 1):
        environment = {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOME": "/home/me", "TMPDIR": f"/scratch/{task}",
            "SLURM_ARRAY_TASK_ID": str(task),
        }  # fmt: skip
        command = ["bash", "-eu", str(tmp_path / "job.sh")]
        ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        offline, cache, *arguments = ran.stdout.splitlines()
        assert (offline, cache) == ("1", f"/scratch/{task}/cache")
        options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        assert arguments[0] == "run" and options["--output-folder"] == "/home/me/results"
        assert options["-b"] in {benchmark.name for benchmark in make_benchmarks()}
        names.append(str(Method.parse_model(options["-m"])))
    assert len(set(names)) == int(last) + 1 == 3


# ---- links and commands ----------------------------------------------------------------------------------------


def test_the_readme_links_to_every_page_and_names_every_command() -> None:
    for path in DOCS.glob("*.md"):
        assert f"docs/{path.name}" in README, path.name
    for command in cli.COMMANDS:
        assert f"{command}`" in README, command


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_command_module_and_file_that_a_page_names_exists(path) -> None:
    content = path.read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", content, flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", text):
        assert (path.parent / target).exists(), target
    assert set(re.findall(r"(?:`|\$ |/)mteb-longembed ([a-z][a-z-]+)", content)) <= set(cli.COMMANDS)
    for named in set(re.findall(r"\bmteb_longembed((?:\.\w+)+)(?!\w|/|-)", content)) - {".pth", ".start"}:
        pkgutil.resolve_name(f"mteb_longembed{named}")
    for named in re.findall(r"`([\w.]+/[\w/]+\.py)`", text):
        assert "KEY" in named or any((room / named).exists() for room in (ROOT, ROOT / "mteb_longembed"))
    for named in re.findall(r"python -m (experiments\.\w+)", content):
        assert (ROOT / f"{named.replace('.', '/')}.py").exists(), named


# ---- commands that pages show ------------------------------------------------------------------------------------


def commands_of(path: Path) -> list[str]:
    """The commands of this package and of mteb in a page, without comments."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        for line in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block, re.MULTILINE):
            for command in line.replace("\\\n", " ").split(" && "):
                words = shlex.split(command, comments=True)
                while words and "=" in words[0]:  # of the environment
                    del words[0]
                if words and Path(words[0]).name in ("mteb", "mteb-longembed"):
                    found.append(shlex.join([Path(words[0]).name, *words[1:]]))
    return found


COMMANDS = sorted({command for path in PAGES for command in commands_of(path)})
#: The bases that pages name, each served as a tiny model.
SERVED = {
    "intfloat/e5-base-v2": "my-model",
    "intfloat/e5-large-v2": "my-model",
    "sentence-transformers/all-MiniLM-L6-v2": "my-model",
    "colbert-ir/colbertv2.0": "late",
    "naver/splade-v3": "sparse",
}


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory) -> Path:
    """A folder with the files that commands name."""
    root = tmp_path_factory.mktemp("pages")
    shutil.copytree(tiny.saved("bert", root / "tiny", max_position_embeddings=512), root / "my-model")
    (root / "my-model" / "README.md").write_text("---\nlicense: mit\n---\n")
    tiny.late("bert", root)
    tiny.sparse("bert", root)
    beir(root / "data", [tiny.text(60, seed) for seed in range(8)], [tiny.text(6, seed) for seed in range(8)])
    texts = root / "data"
    for name, source in (
        ("docs.jsonl", "corpus.jsonl"), ("q.jsonl", "queries.jsonl"), ("questions.jsonl", "queries.jsonl"),
        ("qrels.tsv", "qrels/test.tsv"),
    ):  # fmt: skip
        shutil.copy(texts / source, root / name)
    for name in ("elastic.trec", "hybrid.trec"):
        lines = [
            f"q{i} Q0 d{j} {rank} {9 - rank} x"
            for i in range(8)
            for rank, j in enumerate((i, (i + 1) % 8), 1)
        ]
        (root / name).write_text("\n".join(lines))
    return root


def test_pages_show_commands_of_both_kinds() -> None:
    kinds = [shlex.split(command)[:2] for command in COMMANDS]
    for kind in (
        ["mteb", "run"],
        *(["mteb-longembed", name] for name in ("search", "index", "compare", "report", "export")),
    ):
        assert kind in kinds


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_a_page_runs_or_names_what_there_is(
    command, page_folder, tmp_path, monkeypatch
) -> None:
    program, name, *arguments = shlex.split(command)
    monkeypatch.chdir(tmp_path)
    for path in page_folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    with LoopbackHub() as hub:
        hub.patch(monkeypatch, tmp_path / "hf")
        for served, folder in SERVED.items():
            hub.add(served, page_folder / folder, sha=mteb.get_model_meta(served).revision)
        if "my-index" in arguments[:1]:
            assert cli.main(["index", "bm25", "--corpus", "docs.jsonl", "--to", "my-index"]) == 0
        runs = ("search", "index", "compare", "export")
        if program == "mteb-longembed" and "-t" not in arguments and name in runs:
            # a gate of few queries may be open or closed
            assert cli.main([name, *arguments]) in (0, 1)
            return
        if program == "mteb-longembed":
            cli._parsed([name, *arguments])
            models = arguments[:1] if name == "compare" else []
        else:
            models = arguments[arguments.index("-m") + 1 :][:1]
        for model in models:
            if not model.startswith("e5-rope"):  # its architecture is known, its size is not
                assert mteb.get_model_meta(model, fetch_from_hf=True)
    for option, find in (("-t", mteb.get_task), ("-b", mteb.get_benchmark)):
        if option in arguments:
            assert find(arguments[arguments.index(option) + 1])


def test_the_nightly_mutations_name_modules_and_tests_that_exist() -> None:
    tests = runpy.run_path(str(ROOT / ".ci" / "mutations.py"))["TESTS"]
    for module, own in tests.items():
        paths = [f"mteb_longembed/{module}", *(path.partition("::")[0] for path in own.split())]
        assert [path for path in paths if not (ROOT / path).is_file()] == []
