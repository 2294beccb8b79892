#!/usr/bin/env bash
# Attention of a token that may see no token is a row of zeros, not NaN.
#
# Expected: NaN in that row: its softmax divides zero by zero, and the formula in the function's own documentation gives NaN.
# Seen: scaled_dot_product_attention on a CPU gives zeros for a boolean mask; the documented formula gives NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import torch
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
q = torch.randn(1, 1, 4, 8)
mask = torch.ones(4, 4, dtype=torch.bool)
mask[2] = False
got = scaled_dot_product_attention(q, q, q, attn_mask=mask)
weights = (q @ q.mT / 8**0.5).masked_fill(~mask, float("-inf")).softmax(-1)
formula = weights @ q
print("torch", torch.__version__, "function", got[0, 0, 2], "formula", formula[0, 0, 2])
assert bool((got[0, 0, 2] == 0).all()) and bool(formula[0, 0, 2].isnan().all())
assert torch.allclose(got[0, 0, [0, 1, 3]], formula[0, 0, [0, 1, 3]], atol=1e-6)
PYTHON
