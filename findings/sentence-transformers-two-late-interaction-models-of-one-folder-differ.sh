#!/usr/bin/env bash
# MultiVectorEncoder of a dense model's folder has a random map behind it: two loads give unrelated vectors.
#
# Expected: a dense model opened for late interaction compares its own token embeddings, 32 numbers each, the same each time.
# Seen (sentence-transformers 6.2.0): a Dense from 32 to 128 numbers with random weights is added. The warning says
# "Converting SentenceTransformer model ... to MultiVectorEncoder" and nothing of training. Modules that are given one by one
# (Transformer, MultiVectorMask, Normalize) get no Dense.
# Why it matters: scores look like scores, and an index that was built in another process answers at random.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --no-compile torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/env/bin/python" - <<'PYTHON' 2>&1 | grep --invert-match "it/s"
import sentence_transformers
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "key", "is", "under", "mat"]
with open("vocab.txt", "w") as file:
    file.write("\n".join(words))
config = BertConfig(
    vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
)
BertModel(config).save_pretrained("transformer")
BertTokenizerFast("vocab.txt").save_pretrained("transformer")
SentenceTransformer(modules=[Transformer("transformer"), Pooling(32)], device="cpu").save_pretrained("dense")


def tokens(model: MultiVectorEncoder) -> torch.Tensor:
    return torch.as_tensor(model.encode_document(["the key is under the mat"])[0])


first, second = (tokens(MultiVectorEncoder("dense", device="cpu")) for _ in range(2))
parts = [Transformer("dense"), MultiVectorMask(), Normalize(module_input_name="token_embeddings")]
alike = [tokens(MultiVectorEncoder(modules=parts, device="cpu")) for _ in range(2)]
print("sentence-transformers", sentence_transformers.__version__, "shape", tuple(first.shape))
print("largest difference of two loads:", float((first - second).abs().max()))
print("of two models of given modules:", float((alike[0] - alike[1]).abs().max()), tuple(alike[0].shape))
assert first.shape[1] == 128 and (first - second).abs().max() > 0.1
assert alike[0].shape[1] == 32 and torch.equal(*alike)
PYTHON
