"""Render a template and its script as one HTML page. Its policy runs this script alone and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from mteb_longembed.files import printable


def render(template: str, script: str, **values: object) -> str:
    """Return a page. `template` and `script` are names of files in this folder; values may be untrusted."""
    folder = files("mteb_longembed.comparing")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown
    )
    environment.filters["breakable"] = _breakable
    code = (folder / script).read_text(encoding="utf-8")
    return environment.from_string((folder / template).read_text(encoding="utf-8")).render(
        script=Markup(code),
        script_hash=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
        **values,
    )


def _breakable(name: str) -> Markup:
    """Allow line breaks after the commas and colons of a name."""
    return Markup(re.sub("([,:])(?=.)", r"\1<wbr>", str(escape(name))))


def _shown(value: object) -> object:
    """Replace control characters in a value of the template, which may be untrusted, such as a path."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value)
    return value
