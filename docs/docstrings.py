"""How our docstrings look on the site: `Source:` and `Differs:` are paragraphs with a bold first word."""

from __future__ import annotations

import re
from typing import Any

import griffe

_PART = re.compile(r"^(Source|Differs): (.*(?:\n[ ]+\S.*)*)", re.MULTILINE)


class PlainParts(griffe.Extension):
    """Turns the two parts into Markdown before the docstring is parsed."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _PART.sub(_paragraph, obj.docstring.value)


def _paragraph(match: re.Match[str]) -> str:
    return f"\n**{match[1]}.** {re.sub(chr(10) + ' +', ' ', match[2])}\n"
