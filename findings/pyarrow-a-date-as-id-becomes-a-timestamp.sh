#!/usr/bin/env bash
# A document whose id is a day, such as "2020-01-02", has no such id when the JSON Lines file was read by Arrow or DuckDB.
#
# Expected: a JSON string stays a string, and judgements in another file find the document by it.
# Seen (pyarrow 26.0.1, datasets 5.2.0, duckdb 2.0.1): the column is a timestamp for pyarrow and datasets (load_dataset("json")
# gives datetime.datetime(2020, 1, 2, 0, 0)), and a DATE for DuckDB. polars 2.1.0 and pandas 3.1.1 give the string.
# Why it matters: minutes of meetings and daily reports are named by their day; str() of the id is another text then.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile pyarrow==26.0.1 datasets==5.2.0 duckdb==2.0.1 polars==2.1.0 pandas==3.1.1
cd "$folder"
HF_HOME="$folder/cache" HF_DATASETS_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import datetime
import json
from pathlib import Path

import datasets
import duckdb
import pandas
import polars
import pyarrow.json

datasets.disable_progress_bars()
lines = [json.dumps({"id": f"2020-01-{day:02d}", "text": "minutes"}) for day in (1, 2, 3)]
Path("meetings.jsonl").write_text("\n".join(lines))
found = {
    "pyarrow": pyarrow.json.read_json("meetings.jsonl")["id"][1].as_py(),
    "datasets": datasets.load_dataset("json", data_files="meetings.jsonl", split="train")[1]["id"],
    "duckdb": duckdb.sql("select id from 'meetings.jsonl'").fetchall()[1][0],
    "polars": polars.read_ndjson("meetings.jsonl")["id"][1],
    "pandas": pandas.read_json("meetings.jsonl", lines=True)["id"][1],
}
for reader, key in found.items():
    print(f"{reader}: {key!r}")
moment = datetime.datetime(2020, 1, 2)
assert found["pyarrow"] == found["datasets"] == moment
assert found["duckdb"] == moment.date()
assert found["polars"] == found["pandas"] == "2020-01-02"
PYTHON
