#!/usr/bin/env bash
# A map of `datasets` that writes ids as texts with leading zeros stores them as the numbers they were.
#
# Expected: after map returns "001" for the column id, that column is text and holds "001", as a column of a new name does.
# Seen (datasets 5.2.0): id is still int64 and holds 1, without a word, also with remove_columns=["id"].
# With "doc-1" the same column becomes text. Passing features= keeps "001".
# Why it matters: relevance judgements that say "001" match no document, and every score is 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile datasets==5.2.0 pyarrow==26.0.1
cd "$folder"
export HF_HOME="$folder/cache"
"$folder/env/bin/python" - <<'PYTHON'
import datasets

datasets.disable_progress_bars()
rows = datasets.Dataset.from_dict({"id": [1, 2, 3]})


def padded(row: dict) -> dict:
    return {"id": f"{row['id']:03d}"}


same = rows.map(padded)
removed = rows.map(padded, remove_columns=["id"])
named = rows.map(lambda row: {"id": f"doc-{row['id']}"})
new = rows.map(lambda row: {"new": f"{row['id']:03d}"})
typed = rows.map(padded, features=datasets.Features({"id": datasets.Value("string")}))
print("datasets", datasets.__version__, same.features["id"], same["id"][:], "removed first", removed["id"][:])
print("doc-", named["id"][:], "a new column", new["new"][:], "with features", typed["id"][:])
assert same.features["id"].dtype == "int64" and same["id"][:] == removed["id"][:] == [1, 2, 3]
assert named["id"][:] == ["doc-1", "doc-2", "doc-3"]
assert new["new"][:] == typed["id"][:] == ["001", "002", "003"]
PYTHON
