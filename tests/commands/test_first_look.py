"""Every argument and file is looked at before torch, transformers and mteb are imported."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

#: Runs command lines in one process; prints the status, the message and the large modules loaded so far.
RUN = """
import contextlib, io, json, sys
from mteb_longembed import cli
for line in json.loads(sys.stdin.read()):
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            status = cli.main(line)
        except SystemExit as stopped:
            status = stopped.code
    large = [name for name in ("torch", "transformers", "mteb") if name in sys.modules]
    print(json.dumps([status, errors.getvalue(), large]))
"""
#: Files that are right, and broken copies of them.
FILES = {
    "docs.jsonl": '{"id": "a.txt", "text": "one lamp"}\n{"id": "b", "text": "two keys"}\n',
    "broken.jsonl": '{"id": "a", "text": "one"}\n{"id": "b"}\n',
    "queries.jsonl": '{"id": "q1", "text": "a lamp"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\ta.txt\t1\n",
    "bare.tsv": "q1\ta.txt\t1\nq1\tb\t0\n",
    "without.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t1\n",
    "with.tsv": "query-id\tcorpus-id\tscore\nq1\tb.md\t1\n",
    "other.tsv": "query-id\tcorpus-id\tscore\nq1\tzzz\t1\n",
    "full/file": "",
}


class Case(NamedTuple):
    line: str
    message: str


SEARCH = "search mini-rope lamp --corpus docs.jsonl"
OWN = "compare mini-rope --corpus docs.jsonl --queries queries.jsonl"
CASES = [
    Case(
        "search mini-rope lamp --corpus missing.jsonl", "missing.jsonl: expected a regular file or a folder"
    ),
    Case("search mini-rope lamp --corpus broken.jsonl", "broken.jsonl, row 2: the text must be in a column"),
    Case(
        "search ./folder lamp --corpus docs.jsonl", "'./folder' is neither a folder that exists nor a hub id"
    ),
    Case("search ./folder lamp", "'./folder' is neither a folder that exists nor a hub id"),
    Case("search mini-rope lamp", "--corpus is needed, because mini-rope is not the folder of a saved index"),
    Case("search mini-rop lamp --corpus docs.jsonl", "did you mean 'mini-rope'?"),
    Case(
        "search mini-rope+hybrid:lexical_wieght=0.5 lamp --corpus docs.jsonl",
        "unknown parameter of pcw 'lexical_wieght': did you mean 'lexical_weight'? known: logn, overlap, size; of "
        "every strategy: vectors; of a search: fusion, lexical_weight, query, score, temperature, weights, whiten.",
    ),
    Case(f"{SEARCH} --device none!", "--device must be a device of torch, such as cpu"),
    Case(f"{SEARCH} --language german", "a language must be an ISO 639-3 code"),
    Case(
        "index mini-rope --corpus missing.jsonl --to new",
        "missing.jsonl: expected a regular file or a folder",
    ),
    Case("index mini-rope --corpus broken.jsonl --to new", "broken.jsonl, row 2: the text must be"),
    Case("index mini-rope+windows:seize=9 --corpus docs.jsonl --to new", "did you mean 'size'?"),
    Case("index mini-rope --corpus docs.jsonl --to full", "full"),
    Case("export mini-rope+windows new", "several vectors per document cannot be a plain checkpoint"),
    Case("export mini-rope+hybrid new", "fusion changes search and no model"),
    Case("export mini-rope+pi:whiten=0.5 new", "whiten changes search and no model"),
    Case("export mini-rope+pi full", "the folder to export to must be empty or not exist, got full"),
    Case("export ./folder new", "'./folder' is neither a folder that exists"),
    Case("compare mini-rope --corpus docs.jsonl --qrels qrels.tsv", "--queries and --qrels belong together"),
    Case(
        f"{OWN} --qrels missing.tsv",
        "missing.tsv: expected a regular file or a folder, found none: check the",
    ),
    Case(
        f"{OWN} --qrels bare.tsv",
        "got q1, a.txt, 1: the first line must have the names of the columns, such as query-id, corpus-id, score.",
    ),
    Case(f"{OWN} --qrels without.tsv", "id of a document, got 'a': there is 'a.txt', so write ids as"),
    Case(
        f"{OWN} --qrels with.tsv", "id of a document, got 'b.md': there is 'b', so write ids as the documents"
    ),
    Case(f"{OWN} --qrels other.tsv", "id of a document, got 'zzz': the first document has 'a.txt'."),
    Case("compare mini-rope --data nothing", "nothing: expected a folder in BEIR's layout, found none"),
    Case(
        f"{OWN} --qrels qrels.tsv --strategies windows",
        "windows is a preset and no strategy: a preset is part",
    ),
    Case(f"{OWN} --qrels qrels.tsv --strategies ntkk", "unknown strategy 'ntkk': did you mean 'ntk'?"),
    Case(f"{OWN} --qrels qrels.tsv --target much", "the target must be"),
    Case(f"{OWN} --qrels qrels.tsv --metric nDGC@10", "nDGC@10"),
    Case(f"{OWN} --qrels qrels.tsv --run a=missing.trec", "missing.trec: expected a regular file"),
    Case(f"{OWN} --qrels qrels.tsv --figure a.doc", "a.doc"),
    Case("report nowhere", "there is no results folder 'nowhere'"),
    Case("leaderboard nowhere", "there is no folder nowhere"),
    Case("leaderboard . --port 123456", "--port must be from 0 to 65535, got 123456"),
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> list[tuple[int, str, list[str]]]:
    """The outcomes of all cases, which run in one process."""
    folder = tmp_path_factory.mktemp("look")
    for name, content in FILES.items():
        Path(folder, name).parent.mkdir(exist_ok=True)
        Path(folder, name).write_text(content)
    lines = json.dumps([case.line.split() for case in CASES])
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=lines, capture_output=True, text=True, cwd=folder, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.line for case in CASES])
def test_a_wrong_argument_or_file_is_reported_before_anything_large_is_imported(outcomes, number) -> None:
    status, message, large = outcomes[number]
    assert (status, large) == (2, [])
    assert CASES[number].message in message and message.count("\n") == 1


#: Runs commands one after another, and counts the attempts of each to reach any host, none of which answers.
ALONE = """
import json, socket, sys
attempts = []
def refused(*args, **kwargs):
    attempts.append(args)
    raise socket.gaierror(-3, "no network")
socket.getaddrinfo = refused
from mteb_longembed import cli
for words in json.load(sys.stdin):
    attempts.clear()
    status = cli.main(words)
    print(len(attempts), status, file=sys.stderr)
"""


def test_without_a_network_there_is_one_attempt_to_find_a_model_and_none_to_list(tmp_path) -> None:
    (tmp_path / "docs.jsonl").write_text(FILES["docs.jsonl"])
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environ = {**kept, "HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}
    lines = [["list"], ["search", "nobody/nothing", "lamp", "--corpus", "docs.jsonl"]]
    done = subprocess.run(
        [sys.executable, "-c", ALONE], input=json.dumps(lines), capture_output=True, text=True, check=True,
        cwd=tmp_path, env=environ,
    )  # fmt: skip
    of_list, *said, of_search = done.stderr.splitlines()
    assert (of_list, of_search) == ("0 0", "1 2")
    assert "cannot be reached and 'nobody/nothing' is not in the cache" in said[-1]
