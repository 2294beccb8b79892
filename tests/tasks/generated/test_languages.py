"""Passkey and Needle in other languages: one data file each, checked as the English texts are."""

import json
import shutil
from pathlib import Path
from statistics import mean

import mteb
import pytest

from mteb_longembed.errors import UnknownNameError
from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey
from mteb_longembed.tasks.generated import languages
from mteb_longembed.tasks.generated.haystack import Draws
from mteb_longembed.tasks.generated.languages import find_language
from mteb_longembed.tasks.generated.needle import facts, made_sentences
from mteb_longembed.tasks.generated.synthetic import LENGTHS, SyntheticRetrieval
from mteb_longembed.tasks.generated.variants import find_variant

OTHERS = ("deu", "zho")
BOTH = pytest.mark.parametrize("task", [LongEmbedPasskey, LongEmbedNeedle])
EACH = pytest.mark.parametrize("code", OTHERS)

# raise _HARDER_AND_LANGUAGES in synthetic.py where one of these changes
HASHES = {
    "LongEmbedPasskey-deu": "65c77892016c",
    "LongEmbedPasskey-zho": "efbe2a49cb7a",
    "LongEmbedNeedle-deu": "8df2169efcb8",
    "LongEmbedNeedle-zho": "d198e65034d1",
}


def made(task: type[SyntheticRetrieval], code: str) -> type[SyntheticRetrieval]:
    return type(task.variant(language=code))


@EACH
@BOTH
def test_mteb_finds_the_task_of_a_language_by_name_with_its_language_and_script(task, code) -> None:
    name = f"{task.metadata.name}-{code}"
    (variant,) = mteb.get_tasks(tasks=[name])
    assert variant.metadata.name == name
    assert variant.metadata.eval_langs == [{"deu": "deu-Latn", "zho": "zho-Hans"}[code]]
    assert variant.metadata.languages == [code]
    assert variant.metadata.revision != task.metadata.revision
    assert variant.metadata.is_filled()


@EACH
@BOTH
def test_a_languages_data_never_change_unnoticed(task: type[SyntheticRetrieval], code: str) -> None:
    variant = made(task, code)
    assert variant.content_hash(LENGTHS) == HASHES[variant.metadata.name]


@EACH
@BOTH
@pytest.mark.parametrize("length", LENGTHS[::3])
def test_documents_have_the_languages_characters_a_token(task, code, length) -> None:
    language = find_language(code)
    rule = language.passkey if task is LongEmbedPasskey else language.prose
    mean_chars = mean(len(row["text"]) for row in made(task, code).generate(f"test_{length}")["corpus"])
    # a cut goes back to the beginning of a word: of at most 20 characters
    assert -20 < mean_chars - length * rule.chars_per_token < 3  # type: ignore[operator, union-attr]


@EACH
@BOTH
def test_a_query_is_answered_by_its_document_alone(task: type[SyntheticRetrieval], code: str) -> None:
    variant = made(task, code)
    data = variant.generate("test_1024")
    texts = {row["id"]: row["text"] for row in data["corpus"]}
    hidden = {item.query: item.text for item in data["corpus"].hidden}
    assert len(data["queries"]) == len({row["text"] for row in data["queries"]}) == 50
    for query in data["queries"]:
        holding = {name for name, text in texts.items() if hidden[query["text"]] in text}
        assert holding == set(data["relevant_docs"][query["id"]])


@EACH
def test_a_hundred_facts_hold_their_answers_and_questions_do_not(code: str) -> None:
    known = facts(code)
    assert len(known) == len({fact.fact for fact in known}) == len({fact.query for fact in known}) == 100
    assert len({fact.answer for fact in known}) == 100
    for fact in known:
        assert fact.answer in fact.fact and fact.answer not in fact.query
        assert fact.query[-1] in "?？" and fact.fact[-1] in ".。"


@EACH
def test_the_prose_gives_no_answer_away(code: str) -> None:
    prose = find_language(code).prose
    assert prose is not None
    text = " ".join(part for parts in prose.parts for part in parts)
    assert [fact.answer for fact in facts(code) if fact.answer in text] == []


@EACH
def test_a_document_of_a_million_tokens_needs_no_sentence_twice(code: str) -> None:
    language = find_language(code)
    prose = language.prose
    assert prose is not None
    average = sum(mean(map(len, parts)) for parts in prose.parts)
    assert prose.n_sentences * average > 2**20 * prose.chars_per_token
    some = made_sentences(prose, language.space, Draws("any"))
    drawn = [next(some).strip() for _ in range(5000)]
    assert len(set(drawn)) == 5000


@EACH
def test_names_are_enough_for_ten_thousand_documents_and_never_words_of_the_filler(code: str) -> None:
    language = find_language(code)
    assert language.n_people >= 10_000
    for names in (language.first_names, language.last_names):
        assert len(names) == len(set(names))
    people = {language.name(first, last) for first in language.first_names for last in language.last_names}
    assert len(people) == language.n_people
    filler = "".join(language.passkey.filler)
    assert not any(name in filler for name in language.first_names)


def test_a_third_language_is_one_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(languages.FOLDER, tmp_path / "languages")
    data = json.loads((languages.FOLDER / "deu.json").read_text(encoding="utf-8"))
    data["code"] = "gsw-Latn"
    (tmp_path / "languages" / "gsw.json").write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(languages, "FOLDER", tmp_path / "languages")
    for name in ("LongEmbedPasskey-gsw", "LongEmbedNeedle-gsw", "LongEmbedNeedle-gsw-twohop"):
        variant = find_variant(name)
        assert variant is not None and variant.metadata.eval_langs == ["gsw-Latn"]
        assert len(variant.generate("test_256")["corpus"]) == 100


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'fra': known: deu, eng, zho"):
        LongEmbedPasskey.variant(language="fra")
    assert find_variant("LongEmbedPasskey-fra") is None
