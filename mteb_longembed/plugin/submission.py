"""Checks on this machine what mteb's public results repository accepts, before anything is sent.

Source: the tests of github.com/embeddings-benchmark/results (folder structure, metadata, task names, duplicate
    results, run settings, size of files), and mteb's own test of new models (tests/test_models/test_model_meta.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import mteb
from mteb.results import TaskResult
from packaging.version import InvalidVersion, Version

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.names.grammar import results_folder
from mteb_longembed.plugin.mteb_parts import part
from mteb_longembed.reports.safe_files import printable, read_json

#: The largest file that is accepted, in bytes.
MAX_BYTES = 10 * 1024 * 1024
#: Results must come from a newer version of mteb than this.
_NEWER_THAN = Version("2.0.0")
_META, _SETTINGS = "model_meta.json", "run_settings.jsonl"
_NO_REVISION = {None, "", "no_revision_available", "external"}
#: Fields of an entry that the maintainers ask for, in addition to those that their test requires.
_ASKED_FOR = (
    "release_date", "languages", "n_parameters", "memory_usage_mb", "max_tokens", "embed_dim", "license",
    "open_weights", "framework", "reference", "similarity_fn_name", "use_instructions", "training_datasets",
)  # fmt: skip


@dataclass
class Checked:
    """The result of the check of one model at one revision; the name of its folder stands in for an unknown one.

    `missing` and `asked` have one sentence for each thing without which results are refused, or for which maintainers
    ask. The results of `local` tasks, which only this package has, stay here. Those of `ready` ones are accepted.
    """

    model: str
    revision: str
    missing: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)


def cache_folder(folder: str | Path) -> Path:
    """The folder that was given to `mteb run --output-folder`, from it or from the folder `results` in it."""
    given = Path(folder)
    for candidate in (given, given.resolve().parent):
        is_given = given.resolve() in (candidate.resolve(), (candidate / "results").resolve())
        if is_given and any(candidate.glob("results/*/*/*.json")):
            return candidate
    raise InputError(
        f"{given} must be a folder that `mteb run --output-folder {given}` wrote, with files of the form "
        "results/MODEL/REVISION/TASK.json, got no such file."
    )


def check_submission(folder: str | Path) -> list[Checked]:
    """Check all results of a folder, by model and revision."""
    results = cache_folder(folder) / "results"
    models = [_check(path) for path in sorted(results.glob("*/*")) if any(path.glob("*.json"))]
    by_task: dict[tuple[str, str], list[Checked]] = defaultdict(list)
    for checked in models:
        for task in checked.ready:
            by_task[checked.model, task].append(checked)
    for (_, task), same_task in by_task.items():
        for checked in same_task if len(same_task) > 1 else ():
            others = ", ".join(other.revision for other in same_task if other is not checked)
            sentence = f"{task} must have results at only one revision, got results at {others} too."
            checked.missing.append(sentence)
    return models


def _check(folder: Path) -> Checked:
    """Check the folder of one model at one revision."""
    checked = Checked(folder.parent.name, folder.name)
    checked.missing += _check_meta(folder, checked)
    settings = _read_settings(folder / _SETTINGS, checked)
    for file in sorted(folder.glob("*.json")):
        if file.name == _META:
            continue
        if file.stem.startswith("LongEmbed"):
            checked.local.append(file.stem)
            continue
        wrong = list(_check_result(file, settings))
        checked.missing += wrong
        checked.ready += [] if wrong else [file.stem]
    if not checked.ready and checked.local:
        checked.missing.append(
            "a result of one of mteb's tasks: the public pages do not have the tasks of this package, so run "
            "`mteb run -b LongEmbed`."
        )
    else:
        _check_benchmark(folder, checked)
    return checked


def _check_meta(folder: Path, checked: Checked) -> Iterator[str]:
    """One sentence for each thing that is wrong with the description of the model, whose name is taken from it."""
    try:
        meta = read_json(folder / _META)
    except FileNotFoundError:
        yield f"{_META}: every folder of results must have one, as `mteb run` writes it."
        return
    except (OSError, DataError) as error:
        yield f"{_META} must be JSON: {str(error)[:80]}"
        return
    name = meta.get("name")
    if not isinstance(name, str) or name != printable(name):
        yield f"{_META} must hold the model's name in printable characters, got {ascii(name)[:80]}."
        return
    checked.model, parent, revision = name, folder.parent.name, meta.get("revision")
    if parent != (wanted := results_folder(name)):
        yield f"the folder of {name} must be called {wanted}, got {parent}."
    if revision in _NO_REVISION:
        yield f"a revision: {_META} must name the commit that was run, got {revision!r}."
    elif revision != folder.name:
        yield f"the folder of the revision must be called {revision}, as {_META} says, got {folder.name}."
    if name.startswith("local/"):
        yield (
            "a public model: a name with local/ means nothing to others, so upload the model (model.push_to_hub) and "
            "run it under its hub id."
        )
    if not dict.__contains__(part("mteb.models.model_implementations", "MODEL_REGISTRY"), name):
        yield (
            "an entry in mteb's registry: a pull request to embeddings-benchmark/mteb with a ModelMeta of the name "
            f"{name} and the revision {revision}."
        )
    if meta.get("adapted_from") == name:
        yield "adapted_from must be another model than the model itself."
    if meta.get("open_weights") and meta.get("n_embedding_parameters") is None:
        yield "n_embedding_parameters: mteb's test requires it for new models with open weights."
    if unknown := [key for key in _ASKED_FOR if meta.get(key) in (None, [])]:
        checked.asked.append(f"{_META} does not have {', '.join(unknown)}: write it into the entry.")


def _read_settings(file: Path, checked: Checked) -> set[tuple[str, str, str]] | None:
    """What was run, as task, split and subset. None if no file says it."""
    expand = part("mteb.results.task_result", "_expand_run_settings_entry")
    try:
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        return {key for line in lines for key, _, _ in expand(read_json(file, line.encode()))}
    except FileNotFoundError:
        sentence = "mteb writes it beside the results; run the tasks again with this mteb."
        checked.missing.append(f"{_SETTINGS}: {sentence}")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {str(error)[:80].rstrip('.')}"
        checked.missing.append(f"{_SETTINGS} must have one JSON object in each line, got {reason}.")
    return None


def _check_result(file: Path, settings: set[tuple[str, str, str]] | None) -> Iterator[str]:
    """One sentence for each thing that is wrong with a file of results."""
    size = file.stat().st_size
    if size > MAX_BYTES:
        yield f"{file.name} must have at most {MAX_BYTES:,} bytes, got {size:,}."
    try:
        result = TaskResult.from_disk(file)
    except Exception as error:  # pydantic's, JSON's and mteb's own
        reason = " ".join(str(error).split())[:120]
        yield f"{file.name} must be a result that mteb reads, got {type(error).__name__}: {reason}."
        return
    if result.task_name != file.stem:
        yield f"{file.name} must be called {result.task_name}.json, after the task in it."
    try:
        is_new = Version(result.mteb_version or "") > _NEWER_THAN
    except InvalidVersion:
        is_new = False
    if not is_new:
        yield f"{file.name} must come from mteb newer than {_NEWER_THAN}, got {result.mteb_version or 'no version'}."
    if settings is not None:
        run = {(split, subset) for task, split, subset in settings if task == result.task_name}
        scored = {(split, entry["hf_subset"]) for split, rows in result.scores.items() for entry in rows}
        without = sorted(f"{split} of {subset}" for split, subset in scored - run)
        if without:
            yield f"{_SETTINGS} must say how {file.stem} was run on {', '.join(without)}."


def splits_in(file: Path) -> set[str]:
    """The splits with results in a file of mteb's. None of them if there is no such file, or it cannot be read."""
    try:
        scores = read_json(file).get("scores")
    except (OSError, DataError):  # mteb reports files that it cannot read
        return set()
    return set(scores) if isinstance(scores, dict) else set()


def _check_benchmark(folder: Path, checked: Checked) -> None:
    """Find tasks of mteb's benchmark for long documents without results. Its page shows only complete models."""
    lacking = []
    for task in mteb.get_benchmark("LongEmbed").tasks:
        name, wanted = task.metadata.name, set(task.eval_splits)
        run = splits_in(folder / f"{name}.json")
        if wanted - run:
            lacking.append(name if not run else f"{name} ({', '.join(sorted(wanted - run))})")
    if lacking:
        checked.asked.append(f"these tasks of the benchmark LongEmbed have no results: {', '.join(lacking)}.")
