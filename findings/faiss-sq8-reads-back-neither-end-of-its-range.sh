#!/usr/bin/env bash
# FAISS's 8-bit scalar quantizer reads back neither the lowest nor the highest number that it was trained on.
#
# Expected: the lowest and the highest trained number of a dimension come back as they are: their codes are 0 and 255.
# Seen (faiss-cpu 1.15.1): 0 and 1 come back as 1/510 and 511/510. A number is rounded down to its code and read back half a
# step higher, so the highest one comes back above all that was trained, and a 0 of a range from 0 as more than 0.
# Why it matters: zeros of sparse or rectified vectors count in every product, and adding a decoded index to a new quantizer
# of the same training moves its highest numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet faiss-cpu==1.15.1 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import faiss
import numpy as np

rows = np.linspace(0, 1, 256, dtype=np.float32)[:, None].repeat(8, axis=1)
index = faiss.IndexScalarQuantizer(8, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
index.train(rows)
index.add(rows[[0, 255]])
low, high = index.reconstruct_n(0, 2)[:, 0]
scores, _ = index.search(np.ones((1, 8), np.float32), 2)
print("faiss", faiss.__version__, "0 and 1 are read back as", low, high, "products with ones", scores[0])
assert abs(low - 1 / 510) < 1e-6 and abs(high - 511 / 510) < 1e-6
assert np.allclose(scores[0], [8 * 511 / 510, 8 / 510], atol=1e-5)
PYTHON
