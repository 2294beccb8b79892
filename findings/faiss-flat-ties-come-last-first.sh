#!/usr/bin/env bash
# FAISS's flat index gives equal scores with the later vectors first.
#
# Expected: vectors with equal scores come in the order in which they were added: 0, 1, 2, 3, 4.
# Seen: of 100 equal vectors the first five are found, but in the order 4, 3, 2, 1, 0, from IndexFlatIP and from knn alike.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet faiss-cpu==1.15.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import faiss
import numpy as np

rows = np.ones((100, 8), np.float32)
index = faiss.IndexFlatIP(8)
index.add(rows)
scores, ids = index.search(rows[:1], 5)
_, by_knn = faiss.knn(rows[:1], rows, 5, faiss.METRIC_INNER_PRODUCT)
print("faiss", faiss.__version__, "scores", scores[0], "ids", ids[0], "by knn", by_knn[0])
assert len(set(scores[0].tolist())) == 1
assert ids[0].tolist() == [4, 3, 2, 1, 0] and by_knn[0].tolist() == [4, 3, 2, 1, 0]
PYTHON
