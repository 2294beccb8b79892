#!/usr/bin/env bash
# In a JSON Lines file whose ids are numbers and texts, DuckDB gives the texts with their quotation marks.
#
# Expected: with ids 0, 1 and "a1" the column is VARCHAR, and the last id is a1.
# Seen (duckdb 2.0.1): the column is JSON, and the last id is "a1", quotation marks included; id::VARCHAR keeps them. One such
# row behind 300 numbers is enough. polars 2.1.0 gives a1 for few rows, and an error where the first hundred are numbers.
# Why it matters: a join with judgements finds all documents with numbers, and silently none of the others.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile duckdb==2.0.1 polars==2.1.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json
from pathlib import Path

import duckdb
import polars

for n in (3, 300):
    rows = [{"id": key, "text": "x"} for key in [*range(n), "a1"]]
    Path(f"{n}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = duckdb.sql(f"select id, typeof(id), id::varchar from '{n}.jsonl'").fetchall()[-1]
    print(f"duckdb {duckdb.__version__}, {n} numbers and a text:", found)
    assert found == ('"a1"', "JSON", '"a1"')
judgements = duckdb.sql("select unnest(['0', 'a1']) as id")
documents = duckdb.sql("select id::varchar as id from '3.jsonl'")
joined = duckdb.sql("select judgements.id from judgements join documents on judgements.id = documents.id").fetchall()
print("found by a join:", joined)
assert joined == [("0",)]
assert polars.read_ndjson("3.jsonl")["id"][-1] == "a1"
PYTHON
