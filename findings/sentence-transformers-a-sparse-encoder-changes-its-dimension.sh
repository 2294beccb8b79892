#!/usr/bin/env bash
# A SparseEncoder says another dimension after its first text than before it.
#
# Expected: a SPLADE model over a vocabulary of 10 words has vectors of 10 numbers, and says so before and after encoding.
# Seen (sentence-transformers 6.2.0): get_embedding_dimension() is 32, the width of the transformer, until the first batch,
# and 10 afterwards. The setting is part of the module's configuration: saved before and after one text, config.json differs.
# Why it matters: an index that is created before the documents are encoded has the wrong width, and a hash of the saved
# folder changes although no weight did.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON' 2>&1 | grep --invert-match "it/s"
from pathlib import Path

import sentence_transformers
from sentence_transformers import SparseEncoder
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "key", "is", "under", "mat"]
Path("vocab.txt").write_text("\n".join(words))
config = BertConfig(
    vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
BertForMaskedLM(config).save_pretrained("transformer")
BertTokenizerFast("vocab.txt").save_pretrained("transformer")
model = SparseEncoder(
    modules=[Transformer("transformer", transformer_task="fill-mask"), SpladePooling()], device="cpu"
)
before = model.get_embedding_dimension()
model.save_pretrained("before")
vector = model.encode_document(["the key is under the mat"])
after = model.get_embedding_dimension()
model.save_pretrained("after")
settings = [Path(name, "1_SpladePooling", "config.json").read_text() for name in ("before", "after")]
print("sentence-transformers", sentence_transformers.__version__, "dimension before and after:", before, after)
print("shape of the vector:", tuple(vector.shape), "settings are equal:", settings[0] == settings[1])
assert (before, after, vector.shape[1]) == (32, 10, 10) and settings[0] != settings[1]
PYTHON
