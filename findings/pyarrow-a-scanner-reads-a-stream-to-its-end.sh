#!/usr/bin/env bash
# A scanner of pyarrow with batch_readahead=1 reads a stream to its end before it gives the second batch.
#
# Expected: after one batch of a reader of 1,000, a scanner with batch_readahead=1 and fragment_readahead=1 has read few.
# Seen (pyarrow 26.0.1): it has read all 1,000, also with both at 0. With use_threads=False it stops before 200.
# Why it matters: a stream of long documents that is larger than memory ends the process.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile pyarrow==26.0.1
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import time

import pyarrow
import pyarrow.dataset

schema = pyarrow.schema([("id", pyarrow.int64())])


def read_ahead(**options: object) -> int:
    n_read = 0

    def batches():
        nonlocal n_read
        for number in range(1000):
            n_read += 1
            yield pyarrow.record_batch([[number]], schema=schema)

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    waiting = pyarrow.dataset.Scanner.from_batches(reader, **options).to_batches()
    next(waiting)
    time.sleep(1)  # threads may read more
    return n_read


one = read_ahead(batch_readahead=1, fragment_readahead=1)
none = read_ahead(batch_readahead=0, fragment_readahead=0)
alone = read_ahead(batch_readahead=1, fragment_readahead=1, use_threads=False)
print("pyarrow", pyarrow.__version__, "read after one batch:", one, none, "without threads:", alone)
assert one == none == 1000 and alone < 200
PYTHON
