"""Does a model use the order of words? "Who teaches B?" against "A teaches B" and "B teaches A".

None of these sentences is in the training text: the probe asks what the models learned by themselves.
"""

# ruff: noqa: SIM905 (word lists read better as text)

from __future__ import annotations

import copy
from collections.abc import Callable
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


#: From the number of tokens of a text to their position ids.
Positions = Callable[[int], torch.Tensor]
#: From texts to embeddings, `[n, d]`.
Embed = Callable[[list[str]], np.ndarray]


def shuffled(seed: int) -> Positions:
    """Position ids in random order. Special tokens keep theirs. Texts must fit into the trained length."""
    generator = torch.Generator().manual_seed(seed)

    def positions(n: int) -> torch.Tensor:
        inner = 1 + torch.randperm(n - 2, generator=generator)
        return torch.cat([torch.tensor([0]), inner, torch.tensor([n - 1])])

    return positions


def everywhere_0(n: int) -> torch.Tensor:
    """Position 0 for all tokens."""
    return torch.zeros(n, dtype=torch.long)


@torch.no_grad()
def embed_at(model: SentenceTransformer, texts: list[str], positions: Positions) -> np.ndarray:
    """Embeddings of texts whose tokens have other position ids than usual, `[n, d]`."""
    rows = []
    for text in texts:
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        hidden = model[0].model(input_ids=ids, position_ids=positions(ids.shape[1])[None]).last_hidden_state
        rows.append(nn.functional.normalize(hidden.mean(1), dim=-1))
    return torch.cat(rows).numpy()


def with_one_row(model: SentenceTransformer) -> SentenceTransformer:
    """A copy of a model with learned positions in which row 0 is the mean of all rows."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        table = changed[0].model.embeddings.position_embeddings.weight
        table[0] = table.mean(0)
    return changed


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


def found_by(task: str, split: str, queries: Embed, documents: Embed) -> dict[str, float]:
    """For every query of a generated task: 1 if its document comes first, else 0.

    Args:
        task: a generated task or variant.
        split: such as `test_512`.
        queries: from the texts of queries to their embeddings.
        documents: the same for documents.
    """
    made = mteb.get_task(task, eval_splits=[split])
    made.load_data()
    data = made.dataset["default"][split]
    ids, documents_ids = data["queries"]["id"], data["corpus"]["id"]
    scores = queries(list(data["queries"]["text"])) @ documents(list(data["corpus"]["text"])).T
    return {
        query: float(documents_ids[place] in data["relevant_docs"][query])
        for query, place in zip(ids, scores.argmax(1), strict=True)
    }
