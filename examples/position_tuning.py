"""Train the position rows that `pi` added to a model, on short pairs; the base's own rows do not change.

pip install 'mteb-longembed[train]'
"""

from datasets import Dataset
from documents import DOCUMENTS, QUESTION
from sentence_transformers import SentenceTransformerTrainingArguments

import mteb_longembed as longembed

texts = list(DOCUMENTS.values())
pairs = Dataset.from_dict({"anchor": [QUESTION] * len(texts), "positive": texts})
arguments = SentenceTransformerTrainingArguments(
    "checkpoints", max_steps=2, per_device_train_batch_size=2, save_strategy="no", report_to="none"
)
model = longembed.tune(longembed.load("mini-ape+pi@1024", device="cpu"), pairs, arguments)
model.save_pretrained("tuned")
ROWS = model[0].model.embeddings.position_embeddings.num_embeddings
