"""ONNX: an exported checkpoint in ONNX Runtime, compared with the checkpoint itself.

pip install mteb-longembed onnx onnxscript onnxruntime
"""

import onnxruntime
import torch
from documents import DOCUMENTS, QUESTION
from sentence_transformers import SentenceTransformer

from mteb_longembed.encoders.export import export

export("mini-rope+ntk@2k:logn=off", "plain")
model = SentenceTransformer("plain", device="cpu", model_kwargs={"attn_implementation": "eager"}).eval()


class Embedder(torch.nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, input_ids, attention_mask):
        return self.whole({"input_ids": input_ids, "attention_mask": attention_mask})["sentence_embedding"]


def inputs(texts):
    read = model.tokenizer(texts, padding=True, truncation=True, max_length=2048, return_tensors="pt")
    return read["input_ids"], read["attention_mask"]


texts = [QUESTION, *DOCUMENTS.values()]
names = ["input_ids", "attention_mask"]
shapes = {name: {0: "batch", 1: "tokens"} for name in names}
torch.onnx.export(Embedder(model), inputs(texts[1:]), "model.onnx", input_names=names, dynamic_shapes=shapes)

session = onnxruntime.InferenceSession("model.onnx")
fed = [dict(zip(names, (part.numpy() for part in inputs([text])), strict=True)) for text in texts]
pairs = zip(fed, model.encode(texts), strict=True)
DIFFERENCE = max(abs(session.run(None, one)[0][0] - vector).max() for one, vector in pairs)
print(f"{DIFFERENCE:.1e}")
