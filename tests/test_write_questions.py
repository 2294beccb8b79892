"""The recipe that lets a language model write questions, against a server on this machine."""

import json
import runpy
from pathlib import Path

import pytest

from tests.loopback_server import serving

RECIPE = Path(__file__).parents[1] / "examples" / "write_questions.py"
ASKED = '{"question": "Who keeps the key?"}'


def run(tmp_path, monkeypatch, address: str, n: int = 4) -> Path:
    documents = [json.dumps({"id": f"d{i}", "text": f"passage {i} has some words"}) for i in range(4)]
    (tmp_path / "docs.jsonl").write_text("\n".join(documents))
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    main = runpy.run_path(str(RECIPE))["main"]
    main(str(tmp_path / "docs.jsonl"), "m", str(n), str(tmp_path / "out"))
    return tmp_path / "out"


def answer(content: object, reason: str = "stop") -> str:
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}]})


def test_the_three_files_hold_questions_and_judgements(tmp_path, monkeypatch, capsys) -> None:
    with serving(lambda *_: answer(f"<think>why? {{}}</think>Sure: {ASKED}")) as address:
        secret = address.replace("://", "://me:secret@")
        out = run(tmp_path, monkeypatch, f"{secret}/v1")
    assert len((out / "qrels.jsonl").read_text().splitlines()) == 4
    shown = capsys.readouterr().out
    assert "asking 127.0.0.1/v1" in shown and "secret" not in shown


@pytest.mark.parametrize(
    "bad",
    [
        answer("Who keeps the key?"),
        answer('{"question": "The key."}'),
        answer('{"question": "I cannot help, can I?"}'),
        answer(ASKED, "length"),
        answer(None),
        (400, '{"error": {"message": "content filter"}}'),
    ],
    ids=["no JSON", "no question", "refusal", "cut off", "nothing", "content filter"],
)
def test_a_bad_answer_drops_its_passage_and_not_the_run(bad, tmp_path, monkeypatch) -> None:
    answers = [bad, answer([{"type": "text", "text": ASKED}]), bad, answer(ASKED)]
    with serving(lambda *_: answers.pop()) as address:
        out = run(tmp_path, monkeypatch, f"{address}/v1")
    assert len((out / "queries.jsonl").read_text().splitlines()) == 2


def test_nothing_kept_is_a_failure_that_names_the_cause(tmp_path, monkeypatch) -> None:
    with serving(lambda *_: "") as address:
        pass  # the port is closed now
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.0)
    with pytest.raises(SystemExit, match=r"^no question was kept: .*(refused|111)"):
        run(tmp_path, monkeypatch, f"{address}/v1", 1)
