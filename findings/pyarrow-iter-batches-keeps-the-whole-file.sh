#!/usr/bin/env bash
# `iter_batches` of a Parquet file in pyarrow keeps every row group that it has read, until the last one.
#
# Expected: while batches of a file with 100 row groups are read and dropped, memory holds one or two groups.
# Seen (pyarrow 26.0.1): of a file of 10 MB it holds 20 MB, and 10 MB with memory_map=True. With row_groups=[number], one
# after the other, it holds 0.6 MB.
# Why it matters: it is the usual way to read a corpus that memory does not hold.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile pyarrow==26.0.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import random

import pyarrow
import pyarrow.parquet

draw = random.Random(0)
with pyarrow.parquet.ParquetWriter("docs.parquet", pyarrow.schema([("text", pyarrow.string())])) as file:
    for _ in range(100):
        file.write_table(pyarrow.table({"text": [draw.randbytes(50_000).hex()]}))


def most(batches) -> int:
    before = pyarrow.total_allocated_bytes()
    found = 0
    for batch in batches:
        del batch
        found = max(found, pyarrow.total_allocated_bytes() - before)
    return found


def groups(file):
    for number in range(file.num_row_groups):
        yield from file.iter_batches(256, row_groups=[number])


whole = most(pyarrow.parquet.ParquetFile("docs.parquet").iter_batches(256))
by_group = most(groups(pyarrow.parquet.ParquetFile("docs.parquet")))
mapped = most(pyarrow.parquet.ParquetFile("docs.parquet", memory_map=True).iter_batches(256))
print("pyarrow", pyarrow.__version__, f"{whole:,} bytes; by group {by_group:,}; memory map {mapped:,}")
assert whole > 9_000_000 and by_group < 1_000_000
PYTHON
