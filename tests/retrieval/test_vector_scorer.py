"""Scores and passages of vectors, for models that are not ours."""

from typing import Any

import mteb
import numpy as np

from mteb_longembed.retrieval.encoding import Pass
from mteb_longembed.retrieval.scorer import Documents
from mteb_longembed.retrieval.settings import SearchSettings
from mteb_longembed.retrieval.vector_scorer import VectorScorer


class WordCounts:
    """An encoder of mteb's that knows two words. A text without them has the vector zero."""

    mteb_model_meta = mteb.get_model_meta("sentence-transformers/all-MiniLM-L6-v2")

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        texts = [text.lower() for batch in inputs for text in batch["text"]]
        return np.array([[text.count("cat"), text.count("dog")] for text in texts], np.float32)


def test_a_window_with_the_vector_zero_is_a_passage_like_others() -> None:
    encoder = WordCounts()
    scorer = VectorScorer(Pass(lambda: encoder), None, SearchSettings())
    text = "A cat, a cat. " * 35 + "Rain and wind. " * 60 + "A dog, a dog. " * 35
    scorer.fit(Documents(["a"], [text]))
    (((start, end),),) = scorer.passages(["dog"], [[0]])
    assert "dog" in text[start:end] and "cat" not in text[start:end]
