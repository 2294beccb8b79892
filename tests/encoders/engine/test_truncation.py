"""What is cut away is counted, and told once."""

import logging

import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders.engine import truncation
from tests import tiny


@pytest.fixture
def model(base):
    return longembed.extend(base, "pi", target_len=64)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == truncation.__name__]


def test_tokens_read_and_whole_lengths_are_those_of_the_texts(model) -> None:
    model.encode([tiny.text(40, 1), tiny.text(64, 2), tiny.text(640, 3)])
    counts = model.truncation
    assert (counts.documents, counts.tokens_read, counts.mostly_cut) == (3, 40 + 64 + 64, 1)
    assert counts.tokens == pytest.approx(40 + 64 + 640, rel=0.01)  # estimated from characters


def test_a_prompt_is_no_part_of_what_was_cut(model) -> None:
    prompt = f"{tiny.text(22, 4)} "
    model.encode([tiny.text(60, 3)], prompt=prompt)
    assert model.truncation.tokens_read == 64 and model.truncation.tokens == pytest.approx(20 + 60, abs=2)
    assert str(model.truncation).startswith("read 64 of about ")


def test_texts_that_fit_are_read_in_full(model, caplog) -> None:
    model.encode([tiny.text(40, 1), tiny.text(63, 2)])
    assert str(model.truncation) == "read all 52 tokens a document on average"
    assert warnings(caplog) == []


def test_the_warning_comes_once_and_can_be_switched_off(model, caplog) -> None:
    logging.getLogger(truncation.__name__).setLevel(logging.ERROR)
    try:
        model.encode([tiny.text(640, 3)])
    finally:
        logging.getLogger(truncation.__name__).setLevel(logging.NOTSET)
    assert warnings(caplog) == []
    truncation._WARNED.discard(model)
    for _ in range(2):
        model.encode([tiny.text(40, 1), tiny.text(640, 3)])
    [line] = warnings(caplog)
    assert line.startswith("1 of 2 texts lose more than half of their length, because the model reads only")


def test_less_than_half_is_cut_without_a_warning(model, caplog) -> None:
    model.encode([tiny.text(100, 3)])
    assert model.truncation.mostly_cut == 0 and warnings(caplog) == []
