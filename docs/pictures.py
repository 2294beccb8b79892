"""Draws the pictures of the documentation: `python docs/pictures.py`.

The position maps come from the code of the strategies, the floors of the package from `.importlinter`, and the
README's curves from the published results. Each is an SVG file in docs/images. A test draws them again and compares.
"""

from __future__ import annotations

import configparser
import json
import math
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.statistics.intervals import proportion_interval

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / "images"
#: The lengths of the pictures, in tokens.
TRAINED, TARGET = 8, 24
_CELL = 11
_LEFT, _TOP = 62, 30
_STYLE = (
    "<style>text{font:11px sans-serif;fill:#555}.a{stroke:#999;stroke-width:1;fill:none}"
    ".m{stroke:#009e73;stroke-width:2;fill:none}.b{stroke:#999;stroke-width:2;stroke-dasharray:4 3;fill:none}"
    ".f{fill:#eef3f9;stroke:#5b7ea6}.l{stroke:#d55e00;stroke-width:1.6;fill:none}.h{font-weight:bold}"
    ".r{fill:#1b2733;text-anchor:middle}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}.f{fill:#22303f;stroke:#7d9cc0}.r{fill:#e6edf5}}</style>"
)
#: The imports that the picture of the floors shows; `.importlinter` allows more.
ARROWS = (
    ("cli", "commands"),
    ("autoload", "plugin"),
    ("commands", "comparing"),
    ("plugin", "retrieval"),
    ("comparing", "encoders"),
    ("retrieval", "encoders"),
    ("tuning", "encoders"),
    ("encoders", "names"),
    ("reports", "statistics"),
    ("encoders.extend", "encoders.building"),
    ("encoders.building", "encoders.model"),
    ("encoders.building", "encoders.bases"),
    ("encoders.model", "encoders.engine"),
    ("encoders.engine", "encoders.store"),
    ("encoders.bases", "encoders.families"),
    ("encoders.families", "encoders.strategies"),
    ("encoders.strategies", "encoders.attention"),
)
#: The README's curves: a model of the authors' results, with its title, and the same model with a strategy.
CURVES = (
    ("dwzhu/e5rope-base", "E5-RoPE, trained on 512", "dwzhu/e5rope-base+se@4096", "+se@4096"),
    (
        "intfloat/e5-mistral-7b-instruct",
        "E5-Mistral, trained on 4,096",
        "intfloat/e5-mistral-7b-instruct+ntk@32768",
        "+ntk@32768",
    ),
)


def strategy(key: str) -> Strategy:
    """The strategy of a picture, with parameters that small lengths allow."""
    params: dict[str, object] = {"dca": {"chunk": 6}}.get(key, {})
    return STRATEGIES[key](trained_len=TRAINED, target_len=TARGET, **params)


def relative(key: str) -> Tensor:
    """The relative position at which token i sees token j: `[n, n]`, NaN where i does not see j."""
    chosen, n = strategy(key), TARGET
    if "attention" in chosen.hooks():
        return chosen.attention().relative(slice(0, n), n).float()
    if "windows" in chosen.hooks():
        out = torch.full((n, n), math.nan)
        for window in chosen.windows(n, 0, 0):
            place = torch.arange(len(window), dtype=torch.float32)
            out[window[:, None], window] = place[:, None] - place
        return out
    at = chosen.position_ids(torch.arange(n), torch.tensor(n)).float()
    return at[:, None] - at


def stretch(key: str) -> list[float]:
    """By how much the wavelength of each of 32 rotary frequencies grows in a document of 4,096 tokens."""
    chosen = STRATEGIES[key](trained_len=512, target_len=4096)
    plain = 10_000.0 ** (-torch.arange(32, dtype=torch.float32) / 32)
    changed = chosen.inv_freq(plain, 10_000.0, torch.tensor([4096])).reshape(-1)
    return [float(a / b) for a, b in zip(plain, changed, strict=True)]


def draw(key: str) -> str:
    """The SVG of one strategy."""
    if {"attention", "windows", "position_ids"} & strategy(key).hooks():
        return _map(relative(key))
    return _curve(stretch(key))


def floors(contract: str) -> list[list[str]]:
    """The floors of a contract of `.importlinter`, from the top: the rooms of each."""
    settings = configparser.RawConfigParser()
    settings.read(ROOT / ".importlinter", encoding="utf-8")
    lines = settings[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [[room.strip() for room in line.replace(":", "|").split("|")] for line in lines if line.strip()]


def rooms() -> str:
    """The SVG of the floors: the package on the left, the inside of `encoders` on the right."""
    high, height = 26, 560
    places: dict[str, tuple[float, float]] = {}
    boxes = []
    for contract, prefix, left, width, head in (
        ("floors", "", 10, 380, "mteb_longembed"),
        ("encoders", "encoders.", 430, 300, "inside encoders"),
    ):
        rows = floors(contract)
        boxes.append(f'<text class="h" x="{left}" y="18">{head}</text>')
        for number, row in enumerate(rows):
            y = 28 + number * (height - high) / (len(rows) - 1)
            wide = (width - 10 * (len(row) - 1)) / len(row)
            for place, name in enumerate(row):
                x = left + place * (wide + 10) + wide / 2
                half = min(wide / 2, 60)
                places[prefix + name] = (x, y)
                size = f'width="{2 * half:.1f}" height="{high}" rx="4"'
                boxes.append(f'<rect class="f" x="{x - half:.1f}" y="{y:.1f}" {size}/>')
                boxes.append(f'<text class="r" x="{x:.1f}" y="{y + 17:.1f}">{name}</text>')
    lines = []
    for above, below in ARROWS:
        (x, y), (to, down) = places[above], places[below]
        way = f"M{x:.1f} {y + high:.1f}L{to:.1f} {down - 3:.1f}"
        if down - y > 150:  # past other rooms: leave at the side and stay there
            side = 1 if to > x else -1
            way = f"M{x + side * 60:.1f} {y + 13:.1f}C{x + side * 150:.1f} {y + 13:.1f} {to + side * 45:.1f} "
            way += f"{(y + down) / 2:.1f} {to + side * 15:.1f} {down - 3:.1f}"
        lines.append(f'<path class="l" marker-end="url(#tip)" d="{way}"/>')
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path fill="#d55e00" d="M0 0L8 4L0 8z"/></marker></defs>'
    )
    return _svg(740, height + 40, [tip, *lines, *boxes])


def by_length() -> str:
    """The SVG of the README: Passkey by length, real models as they are and extended, from the authors' results."""
    file = ROOT / "mteb_longembed/reports/data/published.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["authors"]["rows"]
    passkey = {row["model"]: row["scores"]["Passkey"] for row in rows}
    width, height, top = 300, 130, 24
    parts = []
    for number, (base, title, extended, label) in enumerate(CURVES):
        left = 44 + number * (width + 56)
        parts.append(f'<rect class="a" x="{left}" y="{top}" width="{width}" height="{height}"/>')
        parts.append(f'<text class="h" x="{left}" y="{top - 12}">{title} tokens</text>')
        for share in (0, 50, 100):
            at = top + height * (1 - share / 100)
            parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{share}</text>')
        for model, kind, word in ((base, "b", "as it is"), (extended, "m", label)):
            points = []
            for place, (length, score) in enumerate(passkey[model].items()):
                x, y = left + 14 + place * (width - 28) / 7, top + height * (1 - score / 100)
                interval = proportion_interval(score / 100, 50)
                low, far = (top + height * (1 - end) for end in (interval.low, interval.high))
                parts.append(f'<path class="a" d="M{x:.1f} {low:.1f}V{far:.1f}"/>')
                points.append(f"{x:.1f},{y:.1f}")
                if kind == "b":
                    tokens = length if int(length) < 1024 else f"{int(length) // 1024}k"
                    parts.append(
                        f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{tokens}</text>'
                    )
            parts.append(f'<polyline class="{kind}" points="{" ".join(points)}"/>')
            at = top + height + (36 if kind == "b" else 52)
            parts.append(
                f'<path class="{kind}" d="M{left} {at - 4}h26"/><text x="{left + 34}" y="{at}">{word}</text>'
            )
    return _svg(2 * (width + 56), top + height + 62, parts)


def _map(positions: Tensor) -> str:
    """Tokens by tokens: in a darker cell the model sees two tokens further apart. Orange is beyond training."""
    paths: dict[str, list[str]] = {}
    for i, row in enumerate(positions.abs().tolist()):
        j = 0
        for fill, run in groupby(row, _fill):
            count = len(list(run))
            if fill:
                at = f"M{_LEFT + j * _CELL} {_TOP + i * _CELL}"
                paths.setdefault(fill, []).append(f"{at}h{count * _CELL}v{_CELL}h{-count * _CELL}z")
            j += count
    parts = [f'<path fill="{fill}" d="{"".join(boxes)}"/>' for fill, boxes in paths.items()]
    size = TARGET * _CELL
    parts.append(f'<rect class="a" x="{_LEFT}" y="{_TOP}" width="{size}" height="{size}"/>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 8}">key token, 0 to {TARGET - 1}</text>')
    parts.append(f'<text transform="translate({_LEFT - 8} {_TOP + size}) rotate(-90)">query token</text>')
    x = _LEFT + size + 18
    words = ((0, "same place"), (0.5, f"{TRAINED // 2} apart"), (1, f"{TRAINED} apart"))
    for line, (share, word) in enumerate(words):
        parts.append(_key(x, _TOP + 18 * line, _shade(share), word))
    parts.append(_key(x, _TOP + 54, "#d55e00", "further"))
    parts.append(f'<text x="{x}" y="{_TOP + 86}">No colour:</text>')
    parts.append(f'<text x="{x}" y="{_TOP + 100}">not seen.</text>')
    return _svg(x + 100, _TOP + size + 12, parts)


def _curve(values: list[float]) -> str:
    """The growth of each wavelength, fast frequencies on the left."""
    width, height, top = 310, 200, 10.0
    x = [_LEFT + width * i / (len(values) - 1) for i in range(len(values))]

    def y(value: float) -> float:
        return _TOP + height * (1 - (value - 1) / (top - 1))

    points = " ".join(f"{a:.1f},{y(b):.1f}" for a, b in zip(x, values, strict=True))
    parts = [f'<rect class="a" x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"/>']
    for value in (1, 8):
        parts.append(f'<path class="b" d="M{_LEFT} {y(value):.1f}H{_LEFT + width}"/>')
        parts.append(f'<text x="{_LEFT - 26}" y="{y(value) + 4:.1f}">{value} x</text>')
    parts.append(f'<polyline class="m" points="{points}"/>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 8}">growth of the wavelength, 512 to 4,096 tokens</text>')
    below = _TOP + height + 18
    parts.append(f'<text x="{_LEFT}" y="{below}">fast frequencies</text>')
    parts.append(f'<text x="{_LEFT + width}" y="{below}" text-anchor="end">slow frequencies</text>')
    return _svg(_LEFT + width + 16, below + 10, parts)


def _fill(far: float) -> str:
    """The colour of a distance in tokens; none where nothing is seen."""
    if math.isnan(far):
        return ""
    return "#d55e00" if far > TRAINED else _shade(far / TRAINED)


def _shade(share: float) -> str:
    """From near white to dark blue, in steps that every machine rounds to the same."""
    step = round(8 * share) / 8
    light, dark = (236, 242, 250), (20, 60, 120)
    return "#" + "".join(f"{round(a + (b - a) * step):02x}" for a, b in zip(light, dark, strict=True))


def _key(x: int, y: int, fill: str, word: str) -> str:
    return f'<rect x="{x}" y="{y}" width="12" height="12" fill="{fill}"/><text x="{x + 18}" y="{y + 10}">{word}</text>'


def _svg(width: int, height: int, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">{_STYLE}\n{body}\n</svg>\n'
    )


def main() -> None:
    """Write every picture."""
    for key in STRATEGIES:
        (FOLDER / f"{key}.svg").write_text(draw(key), encoding="utf-8")
    (FOLDER / "rooms.svg").write_text(rooms(), encoding="utf-8")
    (FOLDER / "by-length.svg").write_text(by_length(), encoding="utf-8")


if __name__ == "__main__":
    main()
