"""That a model reads less than half of a text is told, once."""

import logging

import pytest

import mteb_longembed as longembed
from mteb_longembed.encoders import batching
from tests import tiny


@pytest.fixture
def model(base):
    return longembed.extend(base, "pi", target_len=64)


def warnings(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == batching.__name__]


@pytest.mark.parametrize("longest", [63, 100])
def test_texts_that_are_read_whole_or_mostly_give_no_warning(model, caplog, longest: int) -> None:
    model.encode([tiny.text(40, 1), tiny.text(longest, 2)])
    assert warnings(caplog) == []


def test_a_long_text_of_few_tokens_is_read_whole(model, caplog) -> None:
    model.encode(["aa " + "x" * 5000])
    assert warnings(caplog) == []


def test_the_warning_comes_once_and_can_be_switched_off(model, caplog) -> None:
    logging.getLogger(batching.__name__).setLevel(logging.ERROR)
    try:
        model.encode([tiny.text(640, 3)])
    finally:
        logging.getLogger(batching.__name__).setLevel(logging.NOTSET)
    assert warnings(caplog) == []
    batching._WARNED.discard(model)
    for _ in range(2):
        model.encode([tiny.text(40, 1), tiny.text(640, 3)])
    [line] = warnings(caplog)
    assert line.startswith("1 of 2 texts lose more than half of their length, because the model reads only")
