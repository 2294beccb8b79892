"""Does a model use the order of words? "Who teaches B?" against "A teaches B" and "B teaches A".

None of these sentences is in the training text: the probe asks what the models learned by themselves.
"""

# ruff: noqa: SIM905 (word lists read better as text)

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from training.positions import embed_at, shuffled

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


def order_hits(model: SentenceTransformer, count: int = 150, as_they_are: bool = True) -> np.ndarray:
    """For `2 * count` questions: 1 if the right statement scores above the statement with exchanged roles, else 0.

    A tie is 0.5.

    Args:
        model: a base.
        count: number of statements, each with and without exchanged roles.
        as_they_are: whether words keep their positions; otherwise their position ids are in random order.
    """
    rng = np.random.default_rng(7)
    drawn = [draw_pair(rng) for _ in range(count)]
    questions = [text for pair in drawn for text in pair.questions]
    statements = [text for pair in drawn for text in pair.statements]
    if as_they_are:
        q, s = model.encode(questions), model.encode(statements)
    else:
        q, s = embed_at(model, questions, shuffled(0)), embed_at(model, statements, shuffled(1))
    right = (q * s).sum(1)
    wrong = (q * s.reshape(count, 2, -1)[:, ::-1].reshape(s.shape)).sum(1)
    margin = np.where(np.abs(right - wrong) < 1e-6, 0, right - wrong)
    return (np.sign(margin) + 1) / 2
