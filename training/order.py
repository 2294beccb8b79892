"""Does a model use the order of words? "Who teaches B?" against "A teaches B" and "B teaches A".

None of these sentences is in the training text: the probe asks what the models learned by themselves.
"""

# ruff: noqa: SIM905 (word lists read better as text)

from __future__ import annotations

from dataclasses import dataclass

import mteb
import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

import mteb_longembed  # noqa: F401 (makes its tasks known to mteb)

# (third person, base form, passive): "A VERBS B", "whom does A VERB?", "B is PASSIVE A".
RELATIONS = [
    ("teaches", "teach", "taught by"),
    ("follows", "follow", "followed by"),
    ("cures", "cure", "cured by"),
    ("rescued", "rescue", "rescued by"),
    ("envies", "envy", "envied by"),
    ("hired", "hire", "hired by"),
    ("feeds", "feed", "fed by"),
    ("accuses", "accuse", "accused by"),
    ("paints", "paint", "painted by"),
    ("guards", "guard", "guarded by"),
    ("defeated", "defeat", "defeated by"),
    ("admires", "admire", "admired by"),
    ("carried", "carry", "carried by"),
    ("trusts", "trust", "trusted by"),
]
NOUNS = """
    lantern drum kettle anvil saddle flute barrel ladder quilt compass basket hammer anchor wagon mirror candle violin
    rope chest hatchet bottle carpet helmet trumpet bucket spade pillow loom oar copper silver ivory marble iron paper
    glass clay bronze silk velvet
""".split()


@dataclass(frozen=True)
class Pair:
    """Two questions and two statements of the same words. Statement i answers only question i."""

    questions: tuple[str, str]
    statements: tuple[str, str]


def draw_pair(rng: np.random.Generator) -> Pair:
    """A statement and a question about two nouns, and both again with exchanged roles."""
    a, b = rng.choice(NOUNS, 2, replace=False)
    verb, base, passive = RELATIONS[rng.integers(len(RELATIONS))]
    say, ask = int(rng.integers(2)), int(rng.integers(4))

    def state(x: str, y: str) -> str:
        return (f"the {x} {verb} the {y} .", f"the {y} is {passive} the {x} .")[say]

    def question(x: str, y: str) -> str:
        return (
            f"who {verb} the {y} ?",
            f"whom does the {x} {base} ?",
            f"the {x} {verb} the {y}",
            f"the {y} is {passive} the {x}",
        )[ask]

    return Pair((question(a, b), question(b, a)), (state(a, b), state(b, a)))


@torch.no_grad()
def embed_shuffled(model: SentenceTransformer, texts: list[str], seed: int) -> np.ndarray:
    """Embeddings with the position ids of every text in random order. Special tokens keep theirs.

    Texts must fit into the trained length.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for text in texts:
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        last = ids.shape[1] - 1
        order = torch.cat(
            [torch.tensor([0]), 1 + torch.randperm(last - 1, generator=generator), torch.tensor([last])]
        )
        hidden = model[0].model(input_ids=ids, position_ids=order[None]).last_hidden_state
        rows.append(nn.functional.normalize(hidden.mean(1), dim=-1))
    return torch.cat(rows).numpy()


def order_hits(model: SentenceTransformer, count: int = 150, shuffled: bool = False) -> np.ndarray:
    """For `2 * count` questions: 1 if the right statement scores above the statement with exchanged roles, else 0.

    A tie is 0.5.
    """
    rng = np.random.default_rng(7)
    drawn = [draw_pair(rng) for _ in range(count)]
    questions = [text for pair in drawn for text in pair.questions]
    statements = [text for pair in drawn for text in pair.statements]
    if shuffled:
        q, s = embed_shuffled(model, questions, 0), embed_shuffled(model, statements, 1)
    else:
        q, s = model.encode(questions), model.encode(statements)
    right = (q * s).sum(1)
    wrong = (q * s.reshape(count, 2, -1)[:, ::-1].reshape(s.shape)).sum(1)
    margin = np.where(np.abs(right - wrong) < 1e-6, 0, right - wrong)
    return (np.sign(margin) + 1) / 2


def found_shuffled(model: SentenceTransformer, task: str, split: str) -> dict[str, float]:
    """For every query of a generated task: 1 if its document comes first with shuffled positions, else 0."""
    made = mteb.get_task(task, eval_splits=[split])
    made.load_data()
    data = made.dataset["default"][split]
    queries, corpus = data["queries"], data["corpus"]
    q, d = embed_shuffled(model, list(queries["text"]), 0), embed_shuffled(model, list(corpus["text"]), 1)
    first = [corpus["id"][i] for i in (q @ d.T).argmax(1)]
    return {
        query: float(document in data["relevant_docs"][query])
        for query, document in zip(queries["id"], first, strict=True)
    }
