#!/usr/bin/env bash
# Two of pyarrow's readers of one folder of Parquet files disagree about its columns.
#
# Expected: both see the folder lang=de as a column, or neither does.
# Seen: parquet.read_table(folder) adds a column lang; dataset.dataset(folder, format="parquet") has the files' own columns alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet pyarrow==26.0.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from pathlib import Path

import pyarrow
import pyarrow.dataset
import pyarrow.parquet

part = Path("data", "lang=de")
part.mkdir(parents=True)
pyarrow.parquet.write_table(pyarrow.table({"id": ["a"]}), part / "part-0.parquet")
table = pyarrow.parquet.read_table("data").schema.names
dataset = pyarrow.dataset.dataset("data", format="parquet").schema.names
print("pyarrow", pyarrow.__version__, "read_table", table, "dataset", dataset)
assert table == ["id", "lang"] and dataset == ["id"]
PYTHON
