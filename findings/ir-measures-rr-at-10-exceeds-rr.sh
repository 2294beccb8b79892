#!/usr/bin/env bash
# In ir_measures the reciprocal rank of the first ten documents can be higher than that of all documents.
#
# Expected: RR@10 is never above RR, since it sees a part of the same order; nDCG, P and RR read one order of a run.
# Seen (ir_measures 0.4.3): RR@10 is 1 where RR is 0.25, in one call on one run with four equal scores. RR (like P and nDCG)
# is counted by pytrec_eval, which puts equal scores in falling order of id; RR@10 by the module msmarco, in rising order.
# Why it matters: rounded scores, quantized vectors and copies of a document tie, so that the two numbers describe two rankings.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet ir_measures==0.4.3 pytrec_eval-terrier==0.5.11 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
from importlib.metadata import version

import ir_measures
from ir_measures import RR, P

relevant = {"q": {"a": 1}}
tied = {"q": {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}}
apart = {"q": {"a": 1.0, "b": 1.1, "c": 1.2, "d": 1.3}}
measures = [RR, RR @ 10, P @ 1]
got = ir_measures.calc_aggregate(measures, relevant, tied)
clear = ir_measures.calc_aggregate(measures, relevant, apart)
print("ir_measures", version("ir_measures"), "tied", got, "apart", clear)
assert got[RR] == 0.25 and got[RR @ 10] == 1 and got[P @ 1] == 0
assert clear[RR] == clear[RR @ 10] == 0.25 and clear[P @ 1] == 0
PYTHON
