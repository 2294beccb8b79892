"""ONNX: an exported checkpoint in ONNX Runtime, compared with the checkpoint itself.

pip install mteb-longembed onnx onnxscript onnxruntime
"""

import sys

import onnxruntime
import torch
from documents import DOCUMENTS, QUESTION
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.export import export

export((sys.argv[1:] or ["mini-rope+ntk@2k:logn=off"])[0], "plain")
model = SentenceTransformer("plain", device="cpu", model_kwargs={"attn_implementation": "eager"})


class Embedder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]


def inputs(texts):
    read = model.tokenizer(texts, padding=True, truncation=True, max_length=2048, return_tensors="pt")
    return tuple(read[name] for name in names)


names, texts = ["input_ids", "attention_mask"], [QUESTION, *DOCUMENTS.values()]
embedder, shapes = Embedder(model).eval(), {name: {0: "batch", 1: "tokens"} for name in names}
torch.onnx.export(embedder, inputs(texts[1:]), "model.onnx", input_names=names, dynamic_shapes=shapes)
session = onnxruntime.InferenceSession("model.onnx")
fed = [dict(zip(names, (part.numpy() for part in inputs([text])), strict=True)) for text in texts]
both = zip(fed, model.encode(texts), strict=True)
DIFFERENCE = max(abs(session.run(None, one)[0][0] - vector).max() for one, vector in both)
print(f"{DIFFERENCE:.1e}")
