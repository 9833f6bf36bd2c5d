"""Draw what a terminal shows as SVG: text, so that it is sharp, small, and can be searched."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final
from xml.etree import ElementTree as ET

_COLUMN: Final = 7.8
_ROW: Final = 18
_MARGIN: Final = 18
_BAR: Final = 30
_STYLES: Final = (
    (re.compile(r"^(\d+\. |\$ )"), "title"),
    (re.compile(r"^\s*Error|denied|Ready=False"), "refused"),
    (re.compile(r"^    "), "note"),
)
_DONE: Final = "  ✔"
_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{width:.0f}" height="{height}" \
viewBox="0 0 {width:.0f} {height}" role="img" aria-label="{label}">
<style>
text {{ font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; \
white-space: pre; fill: #d8dee9 }}
.title {{ font-weight: bold; fill: #ffffff }}
.note {{ fill: #9aa5b5 }}
.refused {{ fill: #ff9e80 }}
.done {{ fill: #7bd88f }}
</style>
<rect width="100%" height="100%" rx="8" fill="#1b222c"/>
<circle cx="20" cy="16" r="5" fill="#ff5f57"/><circle cx="38" cy="16" r="5" fill="#febc2e"/>\
<circle cx="56" cy="16" r="5" fill="#28c840"/>
"""


def draw(lines: Sequence[str], *, label: str) -> str:
    """Return the picture of ``lines``; ``label`` says to a screen reader what it is."""
    width = 2 * _MARGIN + _COLUMN * max(map(len, lines))
    height = _BAR + _MARGIN + _ROW * len(lines)
    head = _HEAD.format(width=width, height=height, label=escape(label))
    return head + "\n".join(_rows(lines)) + "\n</svg>\n"


def text(svg: str) -> str:
    """Return the lines that a picture shows."""
    root = ET.fromstring(svg)  # noqa: S314 - it is a file of this repository
    return "\n".join(
        "".join(row.itertext()) for row in root.iter("{http://www.w3.org/2000/svg}text")
    )


def _rows(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = _BAR + _ROW * (number + 1)
        style = next((name for pattern, name in _STYLES if pattern.search(line)), "")
        content = escape(line)
        if line.startswith(_DONE):
            content = f'  <tspan class="done">✔</tspan>{escape(line.removeprefix(_DONE))}'
        yield f'<text x="{_MARGIN}" y="{y}" class="{style}">{content}</text>'
