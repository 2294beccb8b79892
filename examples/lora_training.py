"""Train a LoRA adapter on an extended model, merge it, save the model and load it: python lora_training.py [STEPS]."""

import sys

import numpy as np
from datasets import Dataset
from documents import DOCUMENTS, FACTS, QUESTION
from peft import LoraConfig, get_peft_model
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

import mteb_longembed

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
names = {name: fact.partition("'")[0] for name, fact in FACTS.items()}
pairs = {
    "anchor": [f"What is the pass key for {names[name]}?" for name in DOCUMENTS],
    "positive": list(DOCUMENTS.values()),
}

model = mteb_longembed.extend("mini-rope", "ntk", 2048, device="cpu")  # extend first, then train
adapted = get_peft_model(
    model[0].model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")
)  # in place
settings = SentenceTransformerTrainingArguments(
    output_dir="checkpoints",
    max_steps=STEPS,
    per_device_train_batch_size=3,
    learning_rate=1e-4,
    gradient_checkpointing=True,  # documents of 2,048 tokens and more need it
    save_strategy="no",  # a checkpoint would be saved before the adapter is merged
    report_to="none",
)
loss = CachedMultipleNegativesRankingLoss(model, mini_batch_size=1)
SentenceTransformerTrainer(model, settings, train_dataset=Dataset.from_dict(pairs), loss=loss).train()
adapted.merge_and_unload()
model.save_pretrained("mini-rope-2k-lora")

loaded = mteb_longembed.load("mini-rope-2k-lora")
scores = loaded.similarity(loaded.encode_query(QUESTION), loaded.encode_document(list(DOCUMENTS.values())))[0]
RANKING = [list(DOCUMENTS)[i] for i in scores.argsort(descending=True)]
DIFFERENCE = float(np.abs(loaded.encode(QUESTION) - model.encode(QUESTION)).max())
print(RANKING, DIFFERENCE)
