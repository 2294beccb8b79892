"""Made-up facts in which the order of the words decides who did what.

Every word list and sentence pattern here is the recipe's own. None is shared with the generators of the
benchmark tasks (`tests/training/test_overlap.py` compares them), so what the models learn is to pick a detail
out of a long text, not one benchmark's sentence.
"""

# ruff: noqa: SIM905 (word lists read better as text)

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ONSETS = """
    b br d dr f fl g gr h j k kl kr l m n p pl pr qu r s sk sl sp st t th tr v vr w y z zh
""".split()
VOWELS = """
    a e i o u ae ei ia ou ua
""".split()
CODAS = (
    ["", "", ""]
    + """
    b d g k l lk m n nd r rn s sk st t th x
""".split()
)

# (third person, base form, passive): "A VERBS B", "whom does A VERB?", "B is PASSIVE A".
RELATIONS = [
    ("teaches", "teach", "taught by"),
    ("owes wheat to", "owe wheat to", "owed wheat by"),
    ("follows", "follow", "followed by"),
    ("cures", "cure", "cured by"),
    ("rescued", "rescue", "rescued by"),
    ("envies", "envy", "envied by"),
    ("hired", "hire", "hired by"),
    ("outruns", "outrun", "outrun by"),
    ("feeds", "feed", "fed by"),
    ("accuses", "accuse", "accused by"),
    ("paints", "paint", "painted by"),
    ("forgave", "forgive", "forgiven by"),
    ("guards", "guard", "guarded by"),
    ("mocks", "mock", "mocked by"),
    ("defeated", "defeat", "defeated by"),
    ("deceives", "deceive", "deceived by"),
    ("admires", "admire", "admired by"),
    ("carried", "carry", "carried by"),
    ("replaced", "replace", "replaced by"),
    ("inherits from", "inherit from", "succeeded by"),
    ("sold a barn to", "sell a barn to", "sold a barn by"),
    ("wrote verses to", "write verses to", "sent verses by"),
    ("borrowed from", "borrow from", "lent to by"),
    ("trusts", "trust", "trusted by"),
]
THINGS = """
    lantern drum kettle anvil saddle flute barrel ladder quilt compass basket hammer anchor wagon mirror
    candle violin rope chest hatchet plough bottle carpet helmet trumpet bucket spade pillow loom oar
""".split()
MATERIALS = """
    copper silver wooden leather woollen ivory marble iron paper glass clay bronze silken tin velvet
""".split()
MEASURES = """
    bushels yards gallons acres ounces leagues shillings crates feet barrels
""".split()


@dataclass(frozen=True)
class Fact:
    """A statement, a question that it alone answers, and its twin: the roles exchanged."""

    statement: str
    query: str
    twin_statement: str
    twin_query: str


def both_ways(drawn: list[Fact]) -> tuple[list[str], list[str]]:
    """The questions of facts and of their twins, and as many statements: 0 and 1, 2 and 3, ... are twins."""
    queries = [query for fact in drawn for query in (fact.query, fact.twin_query)]
    statements = [text for fact in drawn for text in (fact.statement, fact.twin_statement)]
    return queries, statements


def syllable_name(rng: np.random.Generator) -> str:
    """A rare name nobody bears, so that only its word pieces can be matched."""
    syllables = int(rng.integers(2, 4))
    return "".join(
        str(rng.choice(ONSETS)) + str(rng.choice(VOWELS)) + str(rng.choice(CODAS)) for _ in range(syllables)
    )


def entity(rng: np.random.Generator, words: list[str]) -> str:
    """A syllable name, one plain word, or two of them."""
    draw = rng.random()
    if draw < 0.4:
        return syllable_name(rng)
    if draw < 0.6:
        return str(rng.choice(words))
    if draw < 0.8:
        return f"{rng.choice(words)} {rng.choice(words)}"
    return f"{rng.choice(words)} {syllable_name(rng)}"


def relation(rng: np.random.Generator, words: list[str]) -> Fact:
    """A does something to B; the twin: B does it to A."""
    a, b = entity(rng, words), entity(rng, words)
    verb, base, passive = RELATIONS[rng.integers(len(RELATIONS))]
    say = int(rng.integers(2))
    ask = int(rng.integers(4))

    def state(x: str, y: str) -> str:
        return (f"{x} {verb} {y} .", f"{y} is {passive} {x} .")[say]

    def question(x: str, y: str) -> str:
        return (
            f"who {verb} {y} ?",
            f"whom does {x} {base} ?",
            f"{x} {verb} {y}",
            f"{y} is {passive} {x}",
        )[ask]

    return Fact(state(a, b), question(a, b), state(b, a), question(b, a))


def binding(rng: np.random.Generator, words: list[str]) -> Fact:
    """Two owners and two things; the twin has them exchanged."""
    a, b = entity(rng, words), entity(rng, words)
    p, q = (f"{rng.choice(MATERIALS)} {rng.choice(THINGS)}" for _ in range(2))
    ask = int(rng.integers(3))

    def state(x: str, y: str) -> str:
        return f"{x} keeps the {p} . {y} keeps the {q} ."

    def question(x: str, y: str) -> str:
        return (f"the {p} kept by {x}", f"does {x} keep the {p} ?", f"what {y} keeps : the {q}")[ask]

    return Fact(state(a, b), question(a, b), state(b, a), question(b, a))


def quantity(rng: np.random.Generator, words: list[str]) -> Fact:
    """How much of something an owner has; the twin speaks of another owner and amount."""
    thing, unit = rng.choice(THINGS), rng.choice(MEASURES)
    form = int(rng.integers(4))
    ask = int(rng.integers(3))

    def state(x: str, k: int) -> str:
        return (
            f"the {thing} belonging to {x} weighs {k} {unit} .",
            f"{x} has counted {k} {unit} in the {thing} . it was {k} , {x} said .",
            f"{k} {unit} were left to {x} in a {thing} .",
            f"do not forget that {x} needs {k} {unit} for the {thing} , {k} for {x} .",
        )[form]

    def question(x: str) -> str:
        return (
            f"how many {unit} concern the {thing} belonging to {x} ?",
            f"how many {unit} has {x} ?",
            f"{x} and the {thing}",
        )[ask]

    a, b = entity(rng, words), entity(rng, words)
    m, n = (int(rng.integers(11, 10 ** int(rng.integers(2, 6)))) for _ in range(2))
    return Fact(state(a, m), question(a), state(b, n), question(b))


def any_fact(rng: np.random.Generator, words: list[str]) -> Fact:
    return (relation, binding, quantity)[rng.integers(3)](rng, words)
