"""Questions that a language model writes: the rules, odd answers of a server on this machine, and a killed run."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mteb_longembed import cli
from mteb_longembed.comparing import question_writer
from mteb_longembed.comparing.question_writer import (
    Question,
    QuestionWriter,
    draw_passages,
    expected_tokens,
    fault_of,
    rare_words,
    summary,
    write_questions,
)
from mteb_longembed.errors import InputError, WriterError
from mteb_longembed.tasks.data_files import read_documents, read_judgements, read_passages, read_queries
from tests.loopback_server import serving

FILLER = "The weather was fine and everybody went about their usual work as on any other day of the week. "
DOCUMENTS = {
    f"d{i}": f"Page{i}. {FILLER * 3}The keeper Zoltan{i} bought a marble{i} stair from Quito{i}. {FILLER * 6} End{i}."
    for i in range(5)
}


def completion(text: str | None) -> str:
    """What an OpenAI-compatible endpoint answers."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 70, "completion_tokens": 30, "total_tokens": 100}
    about = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    return json.dumps({**about, "choices": [choice], "usage": usage})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[list[dict[str, str]]]]]:
    """Start an endpoint; the messages that it gets. `answer` makes of them the text, or a status and a body."""
    with contextlib.ExitStack() as servers:

        def start(answer: Callable[[list[dict[str, str]]], Any]) -> list[list[dict[str, str]]]:
            asked = []

            def respond(_: str, body: dict[str, Any]) -> str | tuple[int, str]:
                asked.append(body["messages"])
                said = answer(body["messages"])
                return said if isinstance(said, tuple) else completion(said)

            monkeypatch.setenv("OPENAI_BASE_URL", f"{servers.enter_context(serving(respond))}/v1")
            monkeypatch.delenv("OPENAI_API_KEY", raising=False)
            return asked

        yield start


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks again at once."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.0)


def numbered(messages: list[dict[str, str]]) -> str:
    """A question that keeps the rules and is asked once."""
    return f"Which purchase did number {abs(hash(messages[0]['content'])) % 10**9} make on a journey?"


def write(n: int, folder: Path, documents: dict[str, str] = DOCUMENTS) -> list[Question]:
    return write_questions(documents, n, QuestionWriter("m"), folder / "out", show=False)


def test_what_is_written_is_what_compare_reads(serve, tmp_path: Path) -> None:
    serve(numbered)
    questions = write(8, tmp_path)
    assert len(questions) == 8 and all(question.text for question in questions)
    documents = read_documents(tmp_path / "out" / "corpus.jsonl")
    queries = read_queries(tmp_path / "out" / "queries.jsonl")
    judged = read_judgements(tmp_path / "out" / "qrels.jsonl", queries, documents)
    passages = read_passages(tmp_path / "out" / "qrels.jsonl", tmp_path / "out" / "corpus.jsonl")
    assert documents == {key: text.strip() for key, text in DOCUMENTS.items()}
    assert list(queries.values()) == [question.text for question in questions]
    for key, question in zip(queries, questions, strict=True):
        assert judged[key] == {question.document: 1}
        assert passages[key][question.document] == [(question.start, question.end)]
    assert summary(questions) == "8 of 8 questions are kept. The writer read and wrote 800 tokens."


def test_passages_come_from_all_documents_and_places_and_once() -> None:
    documents = {**DOCUMENTS, "long": FILLER * 60, "short": "Too short."}
    drawn = draw_passages(documents, 20)
    assert len(set(drawn)) == 20 and drawn == draw_passages(documents, 20) != draw_passages(
        documents, 20, seed=1
    )
    counts = Counter(key for key, _ in drawn)
    assert set(counts) == {*DOCUMENTS, "long"}
    starts = [start for key, (start, _) in draw_passages({"long": FILLER * 60}, 6)]
    assert max(starts) > len(FILLER) * 20
    assert all(end - start >= question_writer.MIN_CHARS for _, (start, end) in drawn)
    assert len(draw_passages(documents, 10**6)) < 10**3


def test_the_cost_is_expected_before() -> None:
    passages = draw_passages(DOCUMENTS, 4)
    characters = sum(end - start for _, (start, end) in passages)
    assert characters / 4 < expected_tokens(passages) < characters + 4 * 1000


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "is empty"),
        (None, "is empty"),
        ("\n".join(f"Question {i}?" for i in range(10)), "is not one line of at most 300 characters"),
        ("x " * 200, "is not one line of at most 300 characters"),
        ("???", "has no words"),
        ("I'm sorry, I can't help with that.", "is no question"),
        ("What does the passage say about it?", "speaks of the passage, which"),
        ("What is in this text?", "speaks of this text, which"),
        ("What did Zoltan1 buy from Quito1?", "repeats the rare words of the passage"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_asked_again_then_dropped_and_counted(
    serve, tmp_path, answer, reason
) -> None:
    asked = serve(lambda messages: answer)
    documents = {"d1": DOCUMENTS["d1"][280:700]}
    (question,) = write(1, tmp_path, documents)
    assert question.text == "" and question.reason.startswith(reason)
    assert len(asked) == question_writer.TRIES
    assert reason in asked[1][-1]["content"] and question.tokens == 100 * question_writer.TRIES
    assert f"0 of 1 questions are kept; dropped: 1 because the question {reason}" in summary([question])


def test_a_second_try_is_kept(serve, tmp_path: Path) -> None:
    serve(lambda messages: "" if len(messages) == 1 else "Which purchase was made on the journey?")
    (question,) = write(1, tmp_path)
    assert question.text == "Which purchase was made on the journey?" and question.tokens == 200


def test_a_question_that_comes_twice_is_dropped(serve, tmp_path: Path) -> None:
    serve(lambda messages: "Which purchase was made on the journey?")
    questions = write(3, tmp_path)
    assert [bool(question.text) for question in questions] == [True, False, False]
    assert questions[1].reason == "was written before"


def test_an_endpoint_that_is_busy_is_asked_again(serve, tmp_path: Path) -> None:
    calls: list[int] = []

    def busy_at_first(messages: list[dict[str, str]]) -> Any:
        calls.append(1)
        return (429, '{"error": {"message": "slow down"}}') if len(calls) < 3 else numbered(messages)

    serve(busy_at_first)
    (question,) = write(1, tmp_path, {"d": DOCUMENTS["d1"]})
    assert question.text and len(calls) == 3


@pytest.mark.parametrize(
    "answer",
    [
        (429, '{"error": {"message": "no more"}}'),
        (404, '{"error": {"message": "no model m"}}'),
        (200, "<html>"),
        (200, "{}"),
    ],
)
def test_an_endpoint_that_fails_is_one_sentence(serve, tmp_path: Path, answer: tuple[int, str]) -> None:
    serve(lambda messages: answer)
    with pytest.raises(WriterError, match=r"the writer m at http://127\.0\.0\.1.* gave no answer"):
        write(2, tmp_path)


def test_a_killed_run_goes_on_and_asks_nothing_twice(serve, tmp_path: Path) -> None:
    calls: list[int] = []

    def dies(messages: list[dict[str, str]]) -> Any:
        calls.append(1)
        return (404, "{}") if len(calls) == 4 else numbered(messages)

    serve(dies)
    with pytest.raises(WriterError):
        write(5, tmp_path)
    with (tmp_path / "out" / "progress.jsonl").open("a") as file:
        file.write('\n{"writer": "m", "docu')  # a kill in the middle of a line
    assert not (tmp_path / "out" / "queries.jsonl").exists()
    questions = write(5, tmp_path)
    assert len(questions) == 5 and all(question.text for question in questions) and len(calls) == 6
    (tmp_path / "out" / "queries.jsonl").unlink()  # as if the second run had been killed at its end
    assert write(5, tmp_path) == questions
    assert len(calls) == 6


def test_edited_questions_are_not_replaced(serve, tmp_path: Path) -> None:
    serve(numbered)
    write(2, tmp_path)
    with pytest.raises(InputError, match="has questions already, which you may have edited"):
        write(2, tmp_path)


def test_what_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch, serve, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(
        InputError, match="--writer needs an endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL"
    ):
        QuestionWriter("m")
    serve(numbered)
    with pytest.raises(InputError, match="a document needs a passage of at least 200 characters"):
        write(2, tmp_path, {"d": "short"})


def test_rare_words_are_those_of_few_passages() -> None:
    rare = rare_words(DOCUMENTS)
    assert {"zoltan1", "quito4"} <= rare and not {"weather", "the"} & rare
    assert fault_of("Who bought the staircase?", DOCUMENTS["d1"], rare, set()) == ""


def test_the_command_writes_files_for_people_and_says_how_to_go_on(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(numbered)
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"_id": key, "text": text}) for key, text in DOCUMENTS.items()]
    Path("docs.jsonl").write_text("\n".join(lines))
    call = ["compare", "mini-ape", "--corpus", "docs.jsonl", "--make-queries", "4", "--writer", "m"]
    assert cli.main(call) == 0
    shown = capsys.readouterr()
    assert "4 passages of 5 documents: about " in shown.err
    assert "4 of 4 questions are kept. The writer read and wrote 400 tokens." in shown.out
    *_, go_on = shown.out.strip().splitlines()
    words = go_on.split()
    assert words[:3] == ["mteb-longembed", "compare", "mini-ape"]
    # what is printed runs
    more = ["--strategies", "gp", "--no-bm25", "--target", "1k"]
    assert cli.main([*words[1:], *more]) == 0
    assert "4 quer" in capsys.readouterr().out
    # other documents in a file of this name have their own folder, and the line has what BM25 and results need
    Path("docs.jsonl").write_text("\n".join(lines[1:]))
    assert cli.main([*call, "--language", "deu-Latn", "--output-folder", "out"]) == 0
    *_, go_on = capsys.readouterr().out.strip().splitlines()
    assert go_on.endswith("--language deu-Latn --output-folder out")
    assert len({path.parent.name for path in Path().rglob("queries.jsonl")}) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--corpus", "docs.jsonl"],
        ["--make-queries", "4"],
        ["--corpus", "d", "--make-queries", "4", "--queries", "q"],
        ["--corpus", "d", "--make-queries", "4", "-t", "LongEmbedPasskey"],
    ],
)
def test_a_writer_without_documents_or_with_queries_is_one_sentence(arguments, capsys) -> None:
    assert cli.main(["compare", "mini-ape", "--writer", "m", *arguments]) == 2
    assert "--writer needs --corpus and --make-queries N" in capsys.readouterr().err
