from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field

from mteb_longembed.errors import InputError
from mteb_longembed.names import read, read_tokens, spell

WORDS = Annotated[int, Field(ge=2), "words"]


@pytest.mark.parametrize(
    ("annotation", "value", "typed"),
    [
        (bool, "off", False),
        (bool, True, True),
        (float, "10", 10.0),
        (float, "1e1", 10.0),
        (float, 10, 10.0),
        (int, "10.0", 10),
        (int, 1e1, 10),
        (int, np.int64(9), 9),
        (float, np.float32(0.5), 0.5),
        (int | None, None, None),
        (Literal["keep", "scale"], "keep", "keep"),
        (int | Literal["document"] | None, "document", "document"),
        (int | Literal["document"] | None, "9", 9),
    ],
)
def test_a_value_gets_the_declared_type_whoever_gave_it(annotation, value, typed) -> None:
    found = read("x", annotation, value)
    assert found == typed and type(found) is type(typed)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (bool, "maybe", "^ntk's x must be on or off, got 'maybe'"),
        (bool, 1.5, "^ntk's x must be on or off, got 1.5"),
        (int, "banana", "^ntk's x must be a whole number, got 'banana'"),
        (int, "2.5", "^ntk's x must be a whole number, got '2.5'"),
        (int, True, "^ntk's x must be a whole number, got True"),
        (float, "nan", "^ntk's x must be a number, got 'nan'"),
        (float, None, "^ntk's x must be a number, got None"),
        (float, [1], "^ntk's x must be a number"),
        (Literal["keep", "scale"], "cut", "^ntk's x must be one of keep, scale, got 'cut'"),
        (int | Literal["document"], "all", "^ntk's x must be a whole number or document, got 'all'"),
        (WORDS, "1", "^ntk's x must be a whole number of at least 2 words, got '1'"),
        (WORDS | Literal["all"], 0, "^ntk's x must be a whole number of at least 2 words or all, got 0"),
        (
            Annotated[float, Field(gt=0, le=1)],
            1.5,
            "^ntk's x must be a number above 0 and at most 1, got 1.5",
        ),
    ],
)
def test_a_value_of_another_kind_gets_one_sentence(annotation, value, message) -> None:
    with pytest.raises(InputError, match=message):
        read("ntk's x", annotation, value)


def test_tokens_are_numbers_or_thousands_and_others_get_one_sentence() -> None:
    for text, tokens in (("4096", 4096), ("4k", 4096), ("32K", 32768), (512, 512)):
        assert read_tokens("the target", text) == tokens
    for other in ("", "4x", "-4", "4.5k", "many", 0, -1, 4.5, True, None):
        with pytest.raises(InputError, match=r"^the target must be a whole number of at least 1 token"):
            read_tokens("the target", other)


@pytest.mark.parametrize("value", [0.1, 8.0, 1e20, 12.5, 1e-7, True, False, 9, "keep"])
def test_what_is_spelled_is_read_back(value) -> None:
    annotation = Literal["keep"] if value == "keep" else type(value)
    assert read("x", annotation, spell(value)) == value
