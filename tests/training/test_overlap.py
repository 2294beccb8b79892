"""The recipe of the embedded pair must not train on the benchmark it is later measured on."""

from __future__ import annotations

import re

import numpy as np

from mteb_longembed.tasks.languages import find_language
from mteb_longembed.tasks.needle import LongEmbedNeedle, facts
from mteb_longembed.tasks.passkey import LongEmbedPasskey
from training import facts as recipe

ENGLISH = find_language("eng")
NAMES = ENGLISH.first_names + ENGLISH.last_names


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def threes(text):
    found = words(text)
    return set(zip(found, found[1:], found[2:], strict=False))


def recipe_sentences(n=1500):
    """Sentences of the recipe; entities are written X and Y so that only its own patterns are compared."""
    rng = np.random.default_rng(0)
    names = iter(range(10**6))
    original = recipe.entity
    recipe.entity = lambda *_: f"xx{next(names) % 7}"
    try:
        made = [recipe.any_fact(rng, []) for _ in range(n)]
    finally:
        recipe.entity = original
    return [s for fact in made for s in (fact.statement, fact.query)]


def test_no_name_of_the_benchmark_is_a_word_of_the_recipe():
    lists = {w for s in recipe_sentences() for w in words(s)}
    assert not lists & {name.lower() for name in NAMES}


def test_no_syllable_name_of_many_is_a_name_of_the_benchmark():
    rng = np.random.default_rng(0)
    made = {recipe.syllable_name(rng) for _ in range(20_000)}
    assert len(made) > 19_000
    assert not made & {name.lower() for name in NAMES}


def test_no_filler_word_that_says_something_is_a_word_of_the_recipe():
    said = {w for sentence in ENGLISH.passkey.filler for w in words(sentence)} - {
        "the",
        "is",
        "we",
        "and",
        "here",
    }
    assert {"grass", "yellow", "back"} <= said
    assert not said & {w for s in recipe_sentences() for w in words(s)}


def test_no_three_words_in_a_row_are_shared_with_passkey_or_needle():
    ours = set().union(*map(threes, recipe_sentences()))
    passkey = LongEmbedPasskey.generate("test_256")
    texts = [row["text"] for row in passkey["corpus"]] + [row["text"] for row in passkey["queries"]]
    needle = [value for fact in facts() for value in (fact.fact, fact.query, fact.answer)]
    assert len(ours) > 500
    assert LongEmbedNeedle.metadata.name == "LongEmbedNeedle"
    for text in texts + needle:
        assert not ours & threes(text), text[:200]
