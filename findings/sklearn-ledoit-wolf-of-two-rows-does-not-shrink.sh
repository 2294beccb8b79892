#!/usr/bin/env bash
# Ledoit-Wolf's shrinkage of one or two samples is 0, so that their covariance, of rank 0 or 1, is kept as it is.
#
# Expected: the fewer samples, the more shrinkage: near 1 for two random rows of 384 numbers.
# Seen: 0 for one row, below 1e-6 for two (in float32 it can lie below 0); 0.3 for three rows, 0.8 for twelve.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import sklearn
from sklearn.covariance import ledoit_wolf_shrinkage

rows = np.random.default_rng(0).standard_normal((12, 384))
shrinkage = {n: float(ledoit_wolf_shrinkage(rows[:n])) for n in (1, 2, 3, 12)}
print("scikit-learn", sklearn.__version__, shrinkage)
assert shrinkage[1] == 0 and abs(shrinkage[2]) < 1e-6 and 0.2 < shrinkage[3] < 0.5 < shrinkage[12]
PYTHON
