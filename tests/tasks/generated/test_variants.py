"""Variants of the generated tasks by name, for the command line."""

import mteb
import pytest

from mteb_longembed.errors import InputError
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated.variants import TaskRegistry, find_variant


@pytest.mark.parametrize(
    "variant",
    [
        LongEmbedPasskey.variant(seed=7, n_documents=200, depth=0.25),
        LongEmbedPasskey.variant(depth=0.0),
        LongEmbedPasskey.variant(depth=0.010010567347),
        LongEmbedPasskey.variant(depth=1e-5),
        LongEmbedNeedle.variant(n_documents=60, depth=1.0),
        LongEmbedNeedle.variant(seed=12345),
        LongEmbedPasskey.variant(seed=7, n_documents=200, depth=0.25, n_queries=200),
        LongEmbedNeedle.variant(n_queries=100),
        LongEmbedNeedle.variant(kind="paraphrase"),
        LongEmbedNeedle.variant(kind="paraphrase", seed=3, n_documents=60, depth=0.5),
    ],
    ids=lambda variant: variant.metadata.name,
)
def test_mteb_finds_a_variant_by_the_name_it_has_in_python(variant) -> None:
    (loaded,) = mteb.get_tasks(tasks=[variant.metadata.name], eval_splits=["test_256"])
    assert loaded.metadata.name == variant.metadata.name
    assert loaded.metadata.revision == variant.metadata.revision
    assert loaded.eval_splits == ["test_256"]
    made, wanted = (type(task).generate("test_256") for task in (loaded, variant))
    assert list(made["corpus"]) == list(wanted["corpus"])
    assert made["queries"] == wanted["queries"] and made["relevant_docs"] == wanted["relevant_docs"]


def test_depths_have_nine_digits_so_two_names_are_two_places() -> None:
    names = [
        LongEmbedPasskey.variant(depth=depth).metadata.name for depth in (0.0100105673, 0.0100105674, -0.0)
    ]
    tails = [name.removeprefix("LongEmbedPasskey-depth") for name in names]
    assert tails == ["0.010010567", "0.010010567", "0"]
    assert LongEmbedPasskey.variant(depth=0.0100105673).recipe.depth == 0.010010567


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 7.0}, "seed must be a whole number of at least 0, got 7.0"),
        ({"n_documents": "60"}, "n_documents must be a whole number of at least 0, got '60'"),
        ({"depth": "0.5"}, "depth must be from 0 .* got '0.5'"),
    ],
)
def test_settings_that_no_name_can_have_are_told(settings, rule) -> None:
    with pytest.raises(InputError, match=rule):
        LongEmbedPasskey.variant(**settings)


def test_every_document_can_have_a_query_of_its_own() -> None:
    made = LongEmbedPasskey.variant(n_documents=200, n_queries=200)
    data = type(made).generate("test_256")
    answers = [document for judged in data["relevant_docs"].values() for document in judged]
    assert len(data["queries"]) == 200
    assert sorted(answers) == sorted(row["id"] for row in data["corpus"])
    assert made.metadata.name == "LongEmbedPasskey-docs200-queries200"


def test_every_listing_stays_as_it_was() -> None:
    registry = type(mteb.get_task("LongEmbedPasskey")), mteb.get_tasks(task_types=["Retrieval"])
    assert registry[0] is LongEmbedPasskey
    assert not any("-seed" in task.metadata.name for task in registry[1])


PASSKEY = [
    f"Passkey-{tail}" for tail in ("", "depth", "depth0.5-seed7", "deu", "seed7-paraphrase", "paraphrase")
]


@pytest.mark.parametrize("tail", [*PASSKEY, "QMSum-seed1", "Needle-twohop", "Needle-seed3-paraphrase"])
def test_other_names_are_no_variants(tail) -> None:
    name = f"LongEmbed{tail}"
    assert find_variant(name) is None
    assert name not in TaskRegistry() and TaskRegistry().get(name, 3) == 3
    with pytest.raises(KeyError):
        mteb.get_task(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("LongEmbedPasskey-docs20", "must be from 50 to 10000 documents, got 20"),
        ("LongEmbedNeedle-docs101", "must be from 50 to 100 documents, got 101"),
        ("LongEmbedPasskey-queries101", "n_queries of LongEmbedPasskey must be from 50 to .* 100, got 101"),
        ("LongEmbedPasskey-docs200-queries49", "must be from 50 to .* 200, got 49"),
        ("LongEmbedPasskey-depth1.5", "depth must be from 0 .* got 1.5"),
    ],
)
def test_impossible_values_are_told_and_never_passed_over(name, rule) -> None:
    with pytest.raises(InputError, match=rule):
        find_variant(name)
    with pytest.raises(KeyError):  # get_tasks passes over a ValueError and would run nothing
        mteb.get_tasks(tasks=[name])
