"""Generated tasks as mteb asks for them: splits, and variants by name."""

import mteb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mteb_longembed.errors import InputError, UnknownNameError
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated.haystack import Draws, Haystack
from mteb_longembed.tasks.generated.passkey import texts
from mteb_longembed.tasks.generated.variants import TaskRegistry, find_variant

BOTH = pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])


@given(st.floats(0, 1), st.integers(20, 400))
def test_fixed_depth_is_met_to_half_a_sentence(depth: float, n_words: int) -> None:
    haystack = Haystack(texts()["filler"] * (n_words // 19 + 1), n_words)
    row = haystack.hide("HIDDEN.", haystack.draw_end(Draws("any"), depth))
    assert abs(row["depth"] - depth) * n_words <= 5


@BOTH
def test_only_the_requested_splits_are_made(task, monkeypatch) -> None:
    made: list[str] = []
    generate = task.generate
    monkeypatch.setattr(task, "generate", staticmethod(lambda split: made.append(split) or generate(split)))
    loaded = task()
    loaded.filter_eval_splits(["test_512"])
    loaded.load_data()
    loaded.load_data()
    assert made == ["test_512"] == list(loaded.dataset["default"])
    assert loaded.dataset["default"]["test_512"]["corpus"].to_list() == list(generate("test_512")["corpus"])


@BOTH
def test_an_unknown_split_suggests_the_nearest_length(task) -> None:
    for wrong, near in (("300", "256"), ("3000000", "1048576"), ("1k", "1024")):
        message = rf"'test_{wrong}': did you mean 'test_{near}'\? known: test_256, test_512, .*test_1048576\."
        with pytest.raises(UnknownNameError, match=message):
            task().filter_eval_splits([f"test_{wrong}"]).load_data()


@BOTH
def test_variants_have_names_revisions_and_data_of_their_own(task) -> None:
    settings = ({"seed": 1}, {"seed": 2}, {"depth": 0.5}, {"depth": 0.0}, {"n_documents": 60})
    made = [task(), *(task.variant(**options) for options in settings), task.variant(seed=1, depth=0.5)]
    assert len({one.metadata.name for one in made}) == len(made)
    assert len({one.metadata.revision for one in made}) == len(made)
    assert len({str(list(type(one).generate("test_256")["corpus"])) for one in made}) == len(made)
    assert type(task.variant()) is task
    loaded = made[-1].filter_eval_splits(["test_256"])
    loaded.load_data()
    assert all(abs(depth - 0.5) < 0.1 for depth in loaded.dataset["default"]["test_256"]["corpus"]["depth"])
    loaded.unload_data()
    assert loaded.metadata.name == f"{task.metadata.name}-seed1-depth0.5"


@pytest.mark.parametrize(
    "variant",
    [
        LongEmbedPasskey.variant(seed=7, n_documents=200, depth=0.25, n_queries=200),
        LongEmbedPasskey.variant(depth=0.010010567347),  # names have nine digits, and so has the depth
        LongEmbedPasskey.variant(depth=-0.0),
        LongEmbedNeedle.variant(n_documents=60, depth=1.0),
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
    assert len(made["queries"]) == variant.recipe.n_queries


PASSKEY = [
    f"Passkey-{tail}" for tail in ("", "depth", "depth0.5-seed7", "deu", "seed7-paraphrase", "paraphrase")
]


@pytest.mark.parametrize("tail", [*PASSKEY, "QMSum-seed1", "Needle-twohop", "Needle-seed3-paraphrase"])
def test_other_names_are_no_variants_and_no_listing_has_variants(tail) -> None:
    name = f"LongEmbed{tail}"
    assert find_variant(name) is None
    assert name not in TaskRegistry() and TaskRegistry().get(name, 3) == 3 and not list(TaskRegistry())
    with pytest.raises(KeyError):
        mteb.get_task(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("LongEmbedPasskey-docs20", "must be from 50 to 10000 documents, got 20"),
        ("LongEmbedNeedle-docs101", "must be from 50 to 100 documents, got 101"),
        ("LongEmbedPasskey-queries101", "n_queries of LongEmbedPasskey must be from 50 to .* 100, got 101"),
        ("LongEmbedPasskey-docs200-queries49", "must be from 50 to .* 200, got 49"),
        ("LongEmbedPasskey-depth1.5", "depth must be a number .* got '1.5'"),
    ],
)
def test_impossible_values_are_told_and_never_passed_over(name, rule) -> None:
    with pytest.raises(InputError, match=rule):
        find_variant(name)
    with pytest.raises(KeyError):  # get_tasks passes over a ValueError and would run nothing
        mteb.get_tasks(tasks=[name])


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 1.5), ("seed", -1), ("depth", "a"), ("n_queries", 60.5)]
)
def test_settings_of_another_kind_are_refused(name, value) -> None:
    with pytest.raises(InputError, match=f"{name} must be a .*number"):
        LongEmbedPasskey.variant(**{name: value})
