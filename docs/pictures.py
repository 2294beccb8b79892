"""Draws the position maps of docs/strategies.md from the code of the strategies: `python docs/pictures.py`.

Each picture is a small SVG file in docs/images. A test draws them again and compares.
"""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy

FOLDER = Path(__file__).parent / "images"
#: The lengths of the pictures, in tokens.
TRAINED, TARGET = 8, 24
_CELL = 11
_LEFT, _TOP = 62, 30
_STYLE = (
    "<style>text{font:11px sans-serif;fill:#555}.a{stroke:#999;stroke-width:1;fill:none}"
    ".m{stroke:#009e73;stroke-width:2;fill:none}.b{stroke:#999;stroke-width:2;stroke-dasharray:4 3;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}}</style>"
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
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 8}">token that is seen, 0 to {TARGET - 1}</text>')
    parts.append(f'<text transform="translate({_LEFT - 8} {_TOP + size}) rotate(-90)">token that sees</text>')
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


if __name__ == "__main__":
    main()
