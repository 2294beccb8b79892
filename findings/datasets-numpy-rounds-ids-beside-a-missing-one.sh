#!/usr/bin/env bash
# One missing id turns the other whole-number ids of a batch into float32, which rounds them.
#
# Expected: with the format "numpy" of `datasets`, int64 ids beside a missing one are exact, or float64 as in pandas.
# Seen (datasets 5.2.0): the batch is float32, and 16777217 is 16777216; the same row read alone is the exact int64.
# Why it matters: from 2**24 upward neighbouring ids become equal, so that a vector is stored under another document's id.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile datasets==5.2.0 pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1
cd "$folder"
export HF_HOME="$folder/cache"
"$folder/env/bin/python" - <<'PYTHON'
import datasets
import numpy as np

rows = datasets.Dataset.from_dict({"id": [2**24, 2**24 + 1, None]})
batch = rows.with_format("numpy")[:]["id"]
alone = rows.with_format("numpy")[1]["id"]
whole = rows.select([0, 1]).with_format("numpy")[:]["id"]
frame = rows.to_pandas()["id"]
print("datasets", datasets.__version__, batch.dtype, int(batch[1]), "alone", alone.dtype, alone, "none missing", whole.dtype)
assert batch.dtype == np.float32 and batch[0] == batch[1] == 2**24
assert alone.dtype == np.int64 and alone == 2**24 + 1
assert whole.dtype == np.int64 and whole[1] == 2**24 + 1
assert frame.dtype == np.float64 and frame[1] == 2**24 + 1
PYTHON
