#!/usr/bin/env bash
# numpy's norm of a vector in half precision is infinite from about 256 on.
#
# Expected: the norm of (300, 300) is 424, which half precision holds (up to 65,504), as torch 2.13.0 gives it.
# Seen (numpy 2.4.6): infinity, for a vector and for the rows of a matrix: the squares are added up in half precision. The
# mean of the same numbers is right: there numpy adds in single precision.
# Why it matters: rows / norm(rows) of embeddings in half precision are zeros without an error, and all cosines 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" -W ignore - <<'PYTHON'
import numpy as np

rows = np.array([[300, 300], [100, 100]], np.float16)
one, each = np.linalg.norm(rows[0]), np.linalg.norm(rows, axis=1, keepdims=True)
single = np.linalg.norm(rows.astype(np.float32), axis=1)
print("numpy", np.__version__, "norm", one, "of rows", each.ravel(), "in single precision", single, "unit", (rows / each)[0])
assert np.isinf(one) and np.isinf(each[0, 0]) and np.isfinite(each[1, 0])
assert np.allclose(single, [424.26, 141.42], atol=0.01) and (rows / each)[0].tolist() == [0, 0]
PYTHON
