"""What the shipped weights are worth; thresholds lie below what was measured, for rounding."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from mteb_longembed.tasks.generated.passkey import LongEmbedPasskey
from mteb_longembed.zoo import ZOO

MODELS = Path(__file__).parents[2] / "mteb_longembed" / "models"


@pytest.fixture(scope="module", params=["mini-ape", "mini-rope"])
def mini(request):
    return request.param, SentenceTransformer(ZOO[request.param].folder, device="cpu").eval()


def test_all_weights_together_are_small():
    sizes = [file.stat().st_size for file in MODELS.rglob("*") if file.is_file()]
    assert 10e6 < sum(sizes) < 20e6


def test_passkeys_are_found_within_the_trained_length(mini):
    name, model = mini
    made = type(LongEmbedPasskey.variant(n_documents=50)).generate("test_512")
    documents = model.encode([row["text"] for row in made["corpus"]])
    queries = model.encode([row["text"] for row in made["queries"]])
    ids = [row["id"] for row in made["corpus"]]
    nearest = [ids[i] for i in (queries @ documents.T).argmax(1)]
    right = [made["relevant_docs"][row["id"]] for row in made["queries"]]
    share = np.mean([d in r for d, r in zip(nearest, right, strict=True)])
    assert share >= {"mini-ape": 0.92, "mini-rope": 0.9}[name]
