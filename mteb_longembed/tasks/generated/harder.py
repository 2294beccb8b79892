"""Harder needles: documents with the same words, which differ only in their meaning.

Documents come in groups of four. The four documents hide the same sentences, but with their names in another order.
So all four have the same words, each equally often. A model that only matches words scores 25 percent on them. A
model that understands the sentences can score 100.
"""

from __future__ import annotations

from collections.abc import Callable

from mteb_longembed.tasks.generated.haystack import Draws, Hidden
from mteb_longembed.tasks.generated.languages import Harder, Language, capital

GROUP = 4


def most_documents(language: Language) -> int:
    """The largest number of documents for which a language has enough names, places and things; at most 100."""
    names = min(len(language.first_names), len(language.last_names)) // GROUP
    settings = len(language.harder.places) // GROUP * (len(language.harder.things) // GROUP)
    return min(100, GROUP * min(names, settings))


def hidden_by(kind: str, language: Language, draws: Draws, n: int) -> list[Hidden]:
    """The texts that n documents hide."""
    first = draws.shuffled(language.first_names)
    last = draws.shuffled(language.last_names)
    data = language.harder
    places = _fours(draws.shuffled(data.places))
    things = _fours(draws.shuffled(data.things))
    made: list[Hidden] = []
    for group in range(-(-n // GROUP)):

        def person(i: int, j: int, start: int = GROUP * group) -> str:
            return language.name(first[start + i % GROUP], last[start + j % GROUP])

        # a pair of places and things that no other group has
        here = places[group % len(places)]
        owned = things[group // len(places) % len(things)]
        made += [_document(KINDS[kind](data, person, here, owned, j), draws) for j in range(GROUP)]
    return made[:n]


# the full name of a group's first name and last name with these numbers
_People = Callable[[int, int], str]
# the texts that document j of a group hides: pairs of a question and the sentence that answers it; a sentence that
# answers nothing has an empty question
_Made = list[tuple[str, str]]


def _distractors(data: Harder, people: _People, places: list[str], things: list[str], j: int) -> _Made:
    """Facts about similar people: in each document, every first name has another last name."""
    made = []
    for i in range(GROUP):
        person = people(i, i + j)
        query = data.distractors["query"].format(person=person)
        made.append((query, data.distractors["fact"].format(person=person, place=places[i])))
    return made


def _twohop(data: Harder, people: _People, places: list[str], things: list[str], j: int) -> _Made:
    """Who owns a thing, and where people are from: two sentences answer a question that names no person."""
    owned = []
    lived = []
    for i in range(GROUP):
        owner = (i + j) % GROUP
        query = data.twohop["query"].format(thing=things[i], place=places[owner])
        fact = data.twohop["fact"].format(thing=things[i], person=people(owner, owner))
        owned.append((capital(query), capital(fact)))
        lived.append(("", data.twohop["second"].format(person=people(i, i), place=places[i])))
    return owned + lived


def _negation(data: Harder, people: _People, places: list[str], things: list[str], j: int) -> _Made:
    """Four people: one has been to a place, the other three have not."""
    made = []
    for i in range(GROUP):
        words = {"person": people(i, i), "place": places[0]}
        query = data.negation["query"].format(**words) if i == j else ""
        made.append((query, data.negation["fact" if i == j else "denied"].format(**words)))
    return made


_Kind = Callable[[Harder, _People, list[str], list[str], int], _Made]
KINDS: dict[str, _Kind] = {"distractors": _distractors, "twohop": _twohop, "negation": _negation}


def _document(made: _Made, draws: Draws) -> Hidden:
    asked = draws.choice([i for i, (query, _) in enumerate(made) if query])
    query, text = made[asked]
    return Hidden(text, query, tuple(other for i, (_, other) in enumerate(made) if i != asked))


def _fours(items: list[str]) -> list[list[str]]:
    return [items[i : i + GROUP] for i in range(0, len(items) // GROUP * GROUP, GROUP)]
