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


def test_tokens_read_are_counted_and_tokens_cut_estimated_from_the_characters(model) -> None:
    cut = tiny.text(640, 3)
    model.encode([tiny.text(40, 1), tiny.text(64, 2), cut])
    counts = model.truncation
    assert (counts.documents, counts.tokens_read, counts.mostly_cut) == (3, 40 + 64 + 64, 1)
    assert counts.tokens_cut == int(len(cut) / 4.5) + 2 - 64


def test_texts_that_fit_are_read_in_full(model, caplog) -> None:
    model.encode([tiny.text(40, 1), tiny.text(63, 2)])
    assert str(model.truncation) == "read all 103 tokens of 2 documents"
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
