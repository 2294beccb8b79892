"""What holds for both generated tasks: content hashes, depth, splits asked for, variants kept apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from mteb_longembed.errors import UnknownNameError
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated.haystack import Draws, Haystack
from mteb_longembed.tasks.generated.passkey import texts
from mteb_longembed.tasks.generated.synthetic import LENGTHS, SyntheticRetrieval

FILLER = texts().filler

BOTH = pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])


@BOTH
def test_every_split_has_a_hundred_documents_and_fifty_queries(task: type[SyntheticRetrieval]) -> None:
    for split in task.known_splits()[:8]:
        data = task.generate(split)
        texts = [hash(row["text"]) for row in data["corpus"]]
        queries = [row["text"] for row in data["queries"]]
        assert len(texts) == len(set(texts)) == 100
        assert len(queries) == len(set(queries)) == 50
        relevant = [document for judged in data["relevant_docs"].values() for document in judged]
        assert len(relevant) == len(set(relevant)) == 50


@BOTH
def test_depth_is_uniform_over_all_lengths(task: type[SyntheticRetrieval]) -> None:
    depths = [row["depth"] for length in LENGTHS for row in task.generate(f"test_{length}")["corpus"]]
    assert len(depths) == 800
    assert kstest(depths, "uniform").pvalue > 0.01


@BOTH
def test_hidden_text_is_between_sentences_and_depth_tells_where(task: type[SyntheticRetrieval]) -> None:
    draws = Draws("between")
    haystack = Haystack(task.sentences(draws), 743)
    for _ in range(100):
        row = haystack.hide("HIDDEN.", haystack.draw_end(draws, None))
        before, after = row["text"].split("HIDDEN.")
        assert row["depth"] == round(len(before.split()) / 743, 4)
        assert before == "" or before.rstrip()[-1] in ".!?\"'”’"
        assert after == "" or after.strip()[0].isupper() or not after.strip()[0].isalpha()
        assert (before.rstrip() + " " + after.lstrip()).split() == haystack.text.split()


@given(st.floats(0, 1), st.integers(20, 400))
def test_fixed_depth_is_met_to_half_a_sentence(depth: float, n_words: int) -> None:
    haystack = Haystack(FILLER * (n_words // 19 + 1), n_words)
    row = haystack.hide("HIDDEN.", haystack.draw_end(Draws("any"), depth))
    assert abs(row["depth"] - depth) * n_words <= 5


@BOTH
def test_only_the_splits_asked_for_are_made(task: type[SyntheticRetrieval], monkeypatch) -> None:
    made: list[str] = []
    generate = task.generate
    counted = staticmethod(lambda split: made.append(split) or generate(split))
    monkeypatch.setattr(task, "generate", counted)
    loaded = task()
    loaded.filter_eval_splits(["test_512"])
    loaded.load_data()
    loaded.load_data()
    assert made == ["test_512"]
    assert list(loaded.dataset["default"]) == ["test_512"]
    assert loaded.dataset["default"]["test_512"]["corpus"].column_names == ["id", "text", "depth", "n_words"]


@BOTH
def test_an_unknown_split_suggests_the_nearest_length(task: type[SyntheticRetrieval]) -> None:
    for wrong, near in (("300", "256"), ("400", "512"), ("3000000", "1048576"), ("1k", "1024")):
        message = rf"'test_{wrong}': did you mean 'test_{near}'\? known: test_256, test_512, .*test_1048576\."
        with pytest.raises(UnknownNameError, match=message):
            task().filter_eval_splits([f"test_{wrong}"]).load_data()


@BOTH
def test_variants_have_names_revisions_and_data_of_their_own(task: type[SyntheticRetrieval]) -> None:
    settings = ({"seed": 1}, {"seed": 2}, {"depth": 0.5}, {"depth": 0.0}, {"n_documents": 60})
    made = [task(), *(task.variant(**options) for options in settings), task.variant(seed=1, depth=0.5)]
    assert len({one.metadata.name for one in made}) == len(made)
    assert len({one.metadata.revision for one in made}) == len(made)
    assert len({str(list(type(one).generate("test_256")["corpus"])) for one in made}) == len(made)
    assert task.metadata.name == made[0].metadata.name
    assert all(name not in made[1].metadata.name for name in ' :*?"<>|/\\')


@BOTH
def test_a_variant_with_the_defaults_is_the_task_itself(task: type[SyntheticRetrieval]) -> None:
    assert type(task.variant()) is task


@BOTH
def test_a_variant_keeps_its_name_after_its_data_are_unloaded(task: type[SyntheticRetrieval]) -> None:
    variant = task.variant(depth=0.25).filter_eval_splits(["test_256"])
    variant.load_data()
    assert all(abs(depth - 0.25) < 0.1 for depth in variant.dataset["default"]["test_256"]["corpus"]["depth"])
    variant.unload_data()
    assert variant.metadata.name == f"{task.metadata.name}-depth0.25"
