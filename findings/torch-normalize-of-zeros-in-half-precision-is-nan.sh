#!/usr/bin/env bash
# torch's normalize makes NaN of a vector of zeros in half precision, and zeros of it in every other one.
#
# Expected: zeros stay zeros: the function divides by the norm or by eps=1e-12, whichever is larger.
# Seen (torch 2.13.0): NaN in float16, zeros in bfloat16 and float32. In float16, 1e-12 is 0, so it divides 0 by 0.
# Why it matters: a padded or masked embedding in half precision, such as of an empty text, becomes NaN, and with it each
# mean or maximum over it; the same model in bfloat16 does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import normalize

found = {kind: normalize(torch.zeros(1, 4, dtype=kind)) for kind in (torch.float16, torch.bfloat16, torch.float32)}
print("torch", torch.__version__, {str(kind): rows.tolist() for kind, rows in found.items()})
assert bool(found[torch.float16].isnan().all())
assert not found[torch.bfloat16].any() and not found[torch.float32].any()
PYTHON
