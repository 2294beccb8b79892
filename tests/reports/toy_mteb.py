"""A tiny Passkey task and two encoders that really run in mteb."""

from typing import Any

import numpy as np
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta

from mteb_longembed.tasks import LongEmbedPasskey

N_QUERIES = 20
SPLITS = ("test_256", "test_512")


class ToyPasskey(AbsTaskRetrieval):
    """Documents that say their number at some depth."""

    dataset = {"path": "not/there", "revision": "toy-1"}
    metadata = LongEmbedPasskey.metadata.model_copy(update={"dataset": dataset, "eval_splits": list(SPLITS)})

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        queries = [{"id": f"q{i}", "text": f"number {i}"} for i in range(N_QUERIES)]
        facts = [{"depth": i / N_QUERIES, "title": "", "n_words": 2} for i in range(N_QUERIES)]
        pairs = enumerate(zip(facts, queries, strict=True))
        documents = [{**row, **query, "id": f"d{i}"} for i, (row, query) in pairs]
        tables = {"corpus": Dataset.from_list(documents), "queries": Dataset.from_list(queries)}
        judged = {f"q{i}": {f"d{i}": 1} for i in range(N_QUERIES)}
        split = {**tables, "relevant_docs": judged, "top_ranked": None}
        self.dataset = {"default": dict.fromkeys(SPLITS, split)}
        self.data_loaded = True


class ToyEncoder(AbsEncoder):
    """One axis for each number below `n_known`, the last axis for all others: those it cannot tell apart."""

    def __init__(self, name: str, n_known: int) -> None:
        self.n_known = n_known
        self.mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "toy"})

    def encode(self, inputs: Any, **kwargs: Any) -> Any:
        texts = [text for batch in inputs for text in batch["text"]]
        vectors = np.zeros((len(texts), N_QUERIES + 1), dtype=np.float32)
        for row, text in enumerate(texts):
            number = int(text.split()[-1])
            vectors[row, number if number < self.n_known else N_QUERIES] = 1
        return vectors
