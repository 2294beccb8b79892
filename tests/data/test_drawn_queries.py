"""Queries drawn from documents are whole sentences of any script, cut by the one splitter of the package."""

import pytest

from mteb_longembed.data import drawn_queries
from mteb_longembed.data.drawn_queries import draw_queries
from mteb_longembed.errors import DataError

#: language -> documents of two sentences, each of which may be drawn
TEXTS = {
    "eng": [
        "Dr. Smith met the keeper of the old lighthouse. At 3. p.m. nobody had yet seen the missing grey boat?",
        "1. Mrs. Brown walked along the northern shore every day. She never told her sister about the storm!",
    ],
    "hin-Deva": [
        "वह हर सुबह नदी के किनारे टहलने जाता था। उसकी बहन शहर के पुराने स्कूल में पढ़ाती है।",
        "किसान ने अपने खेत में इस साल गेहूँ बोया था। बारिश देर से आई और फसल सूख गई थी।",
    ],
    "ara-Arab": [
        "متى وصل القطار إلى محطة المدينة القديمة أمس؟ كان الرجل ينتظر أخته قرب الباب الكبير.",
        "هل رأيت السفينة التي غادرت الميناء هذا الصباح؟ كتب الحارس اسمها في الدفتر الأزرق القديم.",
    ],
    "tha-Thai": [
        "เขาเดินไปตลาดทุกเช้าเพื่อซื้อปลา น้องสาวของเขาสอนหนังสือในเมือง",
        "ชาวนาปลูกข้าวในทุ่งหลังบ้านปีนี้ ฝนมาช้าและต้นข้าวก็แห้งตาย",
    ],
    "zho-Hans": [
        "他每天早上都去河边散步看书。他的姐姐在城里的学校教书。",
        "农民今年在田里种了很多小麦。雨来得太晚庄稼都枯死了。",
    ],
}
ENDS = {"eng": ".?!", "hin-Deva": "।", "ara-Arab": "؟.", "zho-Hans": "。"}


@pytest.mark.parametrize("language", TEXTS)
def test_every_script_gives_whole_sentences(language: str) -> None:
    corpus = {str(i): text for i, text in enumerate(TEXTS[language])}
    for seed in range(8):
        queries, answers = draw_queries(list(corpus), list(corpus.values()), seed=seed, language=language)
        assert len(queries) == len(corpus)
        for query, sentence in queries.items():
            text = corpus[answers[query]]
            assert sentence != text and (text.startswith(sentence) or text.endswith(sentence))
            assert language == "tha-Thai" or sentence[-1] in ENDS[language]


def test_a_heading_is_not_drawn() -> None:
    corpus = {
        "a": "How the keepers of the lighthouse lived\nThey wrote down every ship that passed the rocks."
    }
    for seed in range(5):
        (query,) = draw_queries(list(corpus), list(corpus.values()), seed=seed)[0].values()
        assert query == "They wrote down every ship that passed the rocks."


def story(n: int, start: int = 0) -> str:
    numbers = range(start, n)
    return " ".join(f"Keeper number {i} walked past the old gate {i * 7} with lamp {i + 3}." for i in numbers)


def test_each_query_is_a_sentence_of_the_document_that_answers_it() -> None:
    corpus = {"a": story(10), "b": story(30, 20)}
    queries, answers = draw_queries(list(corpus), list(corpus.values()))
    assert len(queries) == 2
    for name, text in queries.items():
        document = answers[name]
        assert text in corpus[document] and not any(text in corpus[d] for d in corpus if d != document)


def test_near_duplicates_are_left_out() -> None:
    copy = story(10) + " One more sentence stands here at the very end."
    _, answers = draw_queries(["a", "copy", "b"], [story(10), copy, story(30, 20)])
    assert list(answers.values()) == ["b"]


def test_the_draw_is_the_same_for_the_same_seed() -> None:
    ids = list(map(str, range(8)))
    texts = [story(10 * i + 10, 10 * i) for i in range(8)]
    first = draw_queries(ids, texts, 4)
    assert first == draw_queries(ids, texts, 4) != draw_queries(ids, texts, 4, seed=1)
    assert len(first[0]) == 4


def test_of_many_documents_drawn_ones_give_sentences_that_no_other_has(monkeypatch) -> None:
    ids = list(map(str, range(8)))
    texts = [story(10 * i + 10, 10 * i) for i in range(8)]
    monkeypatch.setattr(drawn_queries, "_MOST", 3 * len(texts[1]))
    _, answers = draw_queries(ids, [*texts[:7], texts[6]])
    assert len(answers) + 2 >= 3 and set(answers.values()) < set(ids) - {"6", "7"}


def test_documents_without_a_sentence_say_so() -> None:
    with pytest.raises(DataError, match="none of the 2 documents has one"):
        draw_queries(["a", "b"], ["too short.", ""])
