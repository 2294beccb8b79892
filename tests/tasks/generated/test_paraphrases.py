"""Paraphrased needles: a question shares no word with the fact that answers it, so matching words finds nothing.

The hundred pairs were read one by one: the fact answers its question for a reader with ordinary knowledge, and no
other fact does. A test can only check the words.
"""

import re

import mteb
import Stemmer

from mteb_longembed.tasks import LongEmbedNeedle
from mteb_longembed.tasks.generated.needle import facts
from tests.own_data import bm25

STEMMER = Stemmer.Stemmer("english")


def stems(text: str) -> set[str]:
    """Snowball stems, those of function words too."""
    return set(STEMMER.stemWords(re.findall(r"\w+", text.lower())))


def test_no_question_shares_a_stem_with_its_fact() -> None:
    pairs = facts("paraphrase")
    assert len({pair.fact for pair in pairs}) == len({pair.query for pair in pairs}) == 100
    assert not [pair for pair in pairs if stems(pair.fact) & stems(pair.query)]


def test_bm25_finds_at_most_five_of_a_hundred() -> None:
    task = mteb.get_task("LongEmbedNeedle-paraphrase-queries100").filter_eval_splits(["test_1024"])
    assert bm25(task).scores["test_1024"][0]["ndcg_at_1"] <= 0.05


def test_every_fact_is_in_one_document() -> None:
    corpus = list(LongEmbedNeedle.variant(kind="paraphrase", n_queries=100).generate("test_1024")["corpus"])
    for pair in facts("paraphrase"):
        assert sum(pair.fact in row["text"] for row in corpus) == 1


def test_the_revision_is_that_of_stored_results_and_follows_the_texts(monkeypatch) -> None:
    from mteb_longembed.tasks.generated import needle

    original = LongEmbedNeedle.variant(kind="paraphrase").metadata
    assert (original.name, original.revision) == ("LongEmbedNeedle-paraphrase", "g2-d76fd0f708b6")
    other = (*facts("paraphrase")[1:], needle.Fact("Something else.", "Who asks?"))
    monkeypatch.setattr(needle, "facts", lambda *_: other)
    assert LongEmbedNeedle.variant(kind="paraphrase").metadata.revision != original.revision
