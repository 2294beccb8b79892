"""Replacements for the published data sets, with the names, revisions and layout of their repositories.

The four real tasks get exactly as many documents and queries as the published data, with the same average length. So
`LongEmbed+` runs on them, and its check for the published size passes.
"""

import json
from collections.abc import Mapping

from mteb_longembed.tasks.generated.synthetic import LENGTHS
from mteb_longembed.tasks.real.hub_retrieval import REPOSITORY, REVISION, Size
from mteb_longembed.tasks.real.paper_tasks import REAL_TASKS
from tests.loopback_hub import LoopbackHub
from tests.own_data import Rows, json_lines
from tests.tiny import WORDS

PASSKEY = ("mteb/LEMBPasskeyRetrieval", "86ac5a6437198a94ecd666440c78b3e78f258274")
_PER_LENGTH = Size(n_documents=12, document_chars=600, n_queries=6, query_chars=40)


def serve(hub: LoopbackHub) -> None:
    """Add both repositories to a hub: `dwzhu/LongEmbed`, and mteb's repository with Passkey."""
    folders = {task.metadata.dataset["name"]: _rows(task.size) for task in REAL_TASKS} | {
        "needle": _by_length()
    }
    hub.add(REPOSITORY, _longembed(folders), repo_type="dataset", sha=REVISION)
    name, revision = PASSKEY
    hub.add(name, _passkey(), repo_type="dataset", sha=revision)


def _text(number: int, n_chars: float) -> str:
    """A text about one thing. It consists of two words, and no other document of a task has both of them."""
    pair = f"{WORDS[number % 400]} {WORDS[(number + 1 + number // 400) % 400]} "
    return (pair * (int(n_chars) // len(pair) + 1))[: round(n_chars)]


def _rows(size: Size, mark: str = "", **also: object) -> dict[str, Rows]:
    documents = [{"doc_id": f"d{mark}{i}", **also} for i in range(size.n_documents)]
    queries = [(i % size.n_documents, {"qid": f"q{mark}{i}", **also}) for i in range(size.n_queries)]
    return {
        "corpus": [{**row, "text": _text(i, size.document_chars)} for i, row in enumerate(documents)],
        "queries": [{**row, "text": _text(j, size.query_chars)} for j, row in queries],
        "qrels": [{**row, "doc_id": f"d{mark}{j}"} for j, row in queries],
    }


def _by_length() -> dict[str, Rows]:
    """Needle's three files hold all lengths. A column gives the length of each row."""
    parts = [_rows(_PER_LENGTH, f"{length}-", context_length=length) for length in LENGTHS]
    return {kind: [row for part in parts for row in part[kind]] for kind in parts[0]}


def repository(configs: Mapping[str, Mapping[str, Rows]], **card: object) -> dict[str, bytes | str]:
    """The files of a data set: a file of rows for each configuration and split, and the card."""
    files, known = {}, []
    for config, splits in configs.items():
        paths = {split: f"{config}/{split}.jsonl" for split in splits}
        files |= {paths[split]: json_lines(content) for split, content in splits.items()}
        listed = [{"split": split, "path": path} for split, path in paths.items()]
        known.append({"config_name": config, "data_files": listed})
    # YAML includes JSON
    return files | {"README.md": f"---\n{json.dumps({'configs': known, **card})}\n---\n"}


def _longembed(folders: Mapping[str, dict[str, Rows]]) -> dict[str, bytes | str]:
    """The files and the card. As in the original, the card makes each file a split of a configuration.

    The original does not declare the columns, but this card does: `datasets` refuses splits with different columns
    unless the card has all of them.
    """
    info = []
    for folder in folders:
        columns = {"doc_id": "string", "qid": "string", "text": "string"}
        if folder == "needle":
            columns["context_length"] = "int64"
        features = [{"name": name, "dtype": kind} for name, kind in columns.items()]
        info.append({"config_name": folder, "features": features})
    return repository(folders, dataset_info=info)


def _passkey() -> dict[str, bytes | str]:
    """One configuration for each kind and one split for each length, as mteb's own loader needs them."""
    made = _rows(_PER_LENGTH)
    kinds: dict[str, Rows] = {
        "corpus": [{"_id": row["doc_id"], "text": row["text"]} for row in made["corpus"]],
        "queries": [{"_id": row["qid"], "text": row["text"]} for row in made["queries"]],
        "default": [{"query-id": r["qid"], "corpus-id": r["doc_id"], "score": 1} for r in made["qrels"]],
    }
    return repository({kind: {f"test_{n}": content for n in LENGTHS} for kind, content in kinds.items()})
