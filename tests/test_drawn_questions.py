"""The recipe that draws sentences to edit: each stands in its document alone."""

import json
import runpy
from pathlib import Path

import pytest

from mteb_longembed.data.sources import Data
from mteb_longembed.sentences import sentences

RECIPE = Path(__file__).parents[1] / "examples" / "drawn_questions.py"


def test_drawn_sentences_are_queries_with_the_passage_that_answers(tmp_path, capsys) -> None:
    both = "This sentence is in both of the documents."
    texts = [
        f"{both} The {colour} ferry leaves the old harbour at nine. Tickets" for colour in ("red", "blue")
    ]
    corpus = tmp_path / "docs.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": f"d{i}", "text": text}) + "\n" for i, text in enumerate(texts))
    )
    main = runpy.run_path(str(RECIPE))["main"]
    main(str(corpus), "9", str(tmp_path / "out"))
    assert "2 of 9 sentences" in capsys.readouterr().out
    queries, qrels = (tmp_path / "out" / f"{stem}.jsonl" for stem in ("queries", "qrels"))
    assert len(qrels.read_text().splitlines()) == 2
    (task,) = Data(corpus=corpus, queries=queries, qrels=qrels).load()
    query_texts = task.dataset["default"]["test"]["queries"]["text"]
    assert not any(both in text for text in query_texts)
    corpus.write_text('{"id": "a", "text": "short."}\n')
    with pytest.raises(SystemExit, match="no document has a sentence"):
        main(str(corpus), "9", str(tmp_path / "out"))


def test_mails_tables_subtitles_and_programs_hold_no_sentences() -> None:
    is_complete = runpy.run_path(str(RECIPE))["is_complete"]
    texts = [
        "> The keeper was not at home when we came.\n> He left.\nSee below.",
        "| Lamp | It was found. |\n|---|---|\n| Key | It was lost. |",
        "1\n00:00:01,000 --> 00:00:02,500\n- and then he was\n\n2\n00:00:03,000 --> 00:00:04,000\ngone for ever.",
        'def find(self):\n    """Find the lamp of the keeper.\n\n    >>> find(3.)\n    """\n    return self.lamp.',
    ]
    found = [[sentence for sentence in sentences(text) if is_complete(sentence)] for text in texts]
    assert found == [["See below."], [], [], []]
