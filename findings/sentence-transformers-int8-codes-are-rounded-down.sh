#!/usr/bin/env bash
# quantize_embeddings of sentence-transformers rounds down, so its int8 codes are half a step too low on average.
#
# Expected: a number takes the nearest of the 256 codes of its range; read back, numbers are right on average.
# Seen (sentence-transformers 6.2.0): of 100,000 uniform numbers the codes are .5 of a step too low on average, in int8 and
# uint8 alike; the largest error is a whole step, not half a step.
# Why it matters: the errors add up in a product: of vectors of 384 numbers, all products move to one side.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON'
import numpy as np
import sentence_transformers
from sentence_transformers.util import quantize_embeddings

rows = np.random.default_rng(0).uniform(-1, 1, (100_000, 1)).astype(np.float32)
ranges = np.array([[-1.0], [1.0]], np.float32)
exact = (rows.astype(float) + 1) * 255 / 2
biases = []
for precision, shift in (("int8", 128), ("uint8", 0)):
    errors = quantize_embeddings(rows, precision, ranges=ranges).astype(float) + shift - exact
    biases.append((precision, round(errors.mean(), 3), round(np.abs(errors).max(), 3)))
print("sentence-transformers", sentence_transformers.__version__, "mean and largest error in steps", biases)
assert all(abs(mean + 0.5) < 0.01 and largest > 0.99 for _, mean, largest in biases)
PYTHON
