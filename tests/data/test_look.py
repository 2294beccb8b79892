"""What is said of a corpus before anything is encoded."""

import numpy as np

from mteb_longembed.data.look import unread


def test_a_tenth_of_the_text_may_be_unread_without_a_word() -> None:
    tokens = np.array([1000.0, 100.0])
    assert unread(tokens, None) == unread(tokens, 890) == ""
    assert unread(tokens, 889).startswith("about 10 % of the text is not read")
