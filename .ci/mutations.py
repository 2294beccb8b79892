"""Change numbers and conditions of the modules that compute results, one at a time: does a test of theirs fail?

    python .ci/mutations.py [MODULE ...]

It works on a copy of the repository, and prints each change that no test saw. Some are harmless, such as the size of a
block. It needs cosmic-ray; a module takes minutes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Module -> its tests.
TESTS = {
    "evaluation/sampling.py": "tests/evaluation/test_split.py",
    "evaluation/resampling.py": "tests/evaluation/test_resampling.py",
    "evaluation/metrics.py": "tests/evaluation/test_metrics.py",
    "evaluation/evaluate.py": "tests/evaluation/test_evaluate.py",
    "evaluation/split.py": "tests/evaluation/test_split.py tests/data/test_task.py",
    "encoders/weights.py": "tests/encoders/test_adapt.py",
    "encoders/whitening.py": "tests/encoders/test_adapt.py",
    "retrieval/index.py": (
        "tests/retrieval/test_hybrid.py tests/retrieval/test_coarse.py tests/retrieval/test_vector_scorer.py"
    ),
    "retrieval/temperature.py": "tests/retrieval/test_temperature.py",
    "retrieval/scores.py": (
        "tests/retrieval/test_scores.py tests/retrieval/test_hybrid.py tests/retrieval/test_vectors.py"
    ),
    "retrieval/postings.py": "tests/retrieval/test_postings.py",
    "retrieval/expansion.py": "tests/retrieval/test_expansion.py",
    "retrieval/vectors.py": "tests/retrieval/test_vectors.py",
    "retrieval/ranking.py": "tests/retrieval/test_ranking.py tests/evaluation/test_evaluate.py",
    "retrieval/passages.py": "tests/retrieval/test_excerpt.py",
    "retrieval/vector_scorer.py": (
        "tests/retrieval/test_vector_scorer.py tests/retrieval/test_searching.py "
        "tests/retrieval/test_sparse_scorer.py::test_one_pass_gives_vectors_of_documents_and_of_windows"
    ),
    "retrieval/sparse_scorer.py": "tests/retrieval/test_sparse_scorer.py",
    "retrieval/sparse_vectors.py": "tests/retrieval/test_sparse_scorer.py",
    "retrieval/encoding.py": (
        "tests/retrieval/test_encoding.py tests/retrieval/test_vector_scorer.py "
        "tests/retrieval/test_sparse_scorer.py tests/retrieval/test_searching.py"
    ),
    "retrieval/encoder.py": (
        "tests/retrieval/test_encoding.py tests/retrieval/test_vector_scorer.py tests/retrieval/test_sparse_scorer.py "
        "tests/retrieval/test_searching.py"
    ),
    "retrieval/coarse.py": "tests/retrieval/test_coarse.py",
    "retrieval/codecs.py": "tests/retrieval/test_codecs.py",
    "retrieval/analyzer.py": "tests/retrieval/test_analyzer.py",
    "retrieval/passage_bm25.py": (
        "tests/retrieval/test_passage_bm25.py tests/retrieval/test_hybrid.py "
        "tests/retrieval/test_index.py::test_added_removed_and_replaced_documents_score_as_in_a_fresh_build"
    ),
    "comparing/summary.py": "tests/comparing/test_summary.py tests/comparing/test_verdict.py",
    "comparing/verdict.py": "tests/comparing/test_verdict.py",
}
CONFIG = """
[cosmic-ray]
module-path = "mteb_longembed/{module}"
timeout = 120.0
excluded-modules = []
test-command = "{python} -m pytest -q -x -p no:cacheprovider mteb_longembed/{module} {tests}"
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = ["core/ReplaceBinary.*", "core/ReplaceUnary.*", "core/RemoveDecorator", ".*_Is(Not)?"]
"""


def survivors(module: str, folder: Path) -> list[str]:
    """Return the changes of a module that its tests did not see, as diffs."""
    config = folder / "mutations.toml"
    config.write_text(CONFIG.format(module=module, python=sys.executable, tests=TESTS[module]))
    session = str(folder / f"{module.replace('/', '-')}.sqlite")

    def call(*command: str) -> str:
        # the package is installed from the repository, and the copy is what changes
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    call("cosmic-ray", "init", config.name, session)
    call("cr-filter-operators", session, config.name)
    call("cosmic-ray", "exec", config.name, session)
    found = []
    for line in call("cosmic-ray", "dump", session).splitlines():
        _, result = json.loads(line)
        if result is not None and result["test_outcome"] == "survived":
            changed = [
                row
                for row in result["diff"].splitlines()
                if row[:1] in "+-" and row[:3] not in ("+++", "---")
            ]
            found.append("\n".join(changed))
    return found


def main() -> None:
    """Run the modules that are named, or all, and print the survivors."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".tox", ".venv", "results"))
        for module in sys.argv[1:] or TESTS:
            found = survivors(module, folder)
            print(f"{module}: {len(found)} survive", *found, sep="\n", flush=True)


if __name__ == "__main__":
    main()
