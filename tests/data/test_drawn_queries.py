"""Queries drawn from documents are whole sentences of any script, cut by the one splitter of the package."""

import pytest

from mteb_longembed.data.drawn_queries import draw_queries

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
        queries, answers = draw_queries(corpus, seed=seed, language=language)
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
        (query,) = draw_queries(corpus, seed=seed)[0].values()
        assert query == "They wrote down every ship that passed the rocks."
