"""results.svg: each ratio on a log axis next to its target, for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_LINE, _TOP, _LEFT, _WIDTH, _RIGHT = 22, 46, 620, 360, 70
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.axis { stroke: #d0d7de } .target { stroke: #24292f; stroke-width: 2 }
.spread { stroke: #24292f; opacity: .6 }
.met { fill: #0072b2 } .missed { fill: #d55e00 } .soft { opacity: .7 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { stroke: #30363d } .target, .spread { stroke: #e6edf3 }
.met { fill: #56b4e9 } .missed { fill: #e69f00 } }
"""


@dataclass(frozen=True)
class Bar:
    """A ratio with its spread and the target that it should reach."""

    label: str
    ratio: float
    low: float
    high: float
    target: float


def chart(bars: Sequence[Bar]) -> str:
    """Draw a bar from 1 to each ratio: blue if it reaches its target, else orange."""
    values = [value for bar in bars for value in (bar.low, bar.high, bar.target)] or [1.0]
    lowest, highest = min(0.5, *values), max(2.0, *values) * 1.1
    bottom = _TOP + _LINE * len(bars)

    def x(value: float) -> float:
        return _LEFT + _WIDTH * math.log(value / lowest) / math.log(highest / lowest)

    parts = [
        f'<text x="{_LEFT}" y="16">times better than the peer or the limit (log axis); '
        "| is the target</text>"
    ]
    for tick in _ticks(lowest, highest):
        parts.append(
            f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{_TOP - 8}" '
            f'y2="{bottom}"/>'
        )
        parts.append(
            f'<text class="soft" x="{x(tick):.1f}" y="{_TOP - 14}" '
            f'text-anchor="middle">{tick:g}</text>'
        )
    for position, bar in enumerate(bars):
        y = _TOP + _LINE * position
        left, right = sorted((x(1), x(bar.ratio)))
        wide = max(right - left, 1)
        kind = "met" if bar.ratio >= bar.target else "missed"
        middle = y + _LINE / 2 - 2
        parts += [
            f'<text x="{_LEFT - 10}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{kind}" x="{left:.1f}" y="{y + 3}" width="{wide:.1f}" '
            f'height="{_LINE - 10}"/>',
            f'<line class="spread" x1="{x(bar.low):.1f}" x2="{x(bar.high):.1f}" '
            f'y1="{middle}" y2="{middle}"/>',
            f'<line class="target" x1="{x(bar.target):.1f}" x2="{x(bar.target):.1f}" '
            f'y1="{y}" y2="{y + _LINE - 4}"/>',
            f'<text x="{_LEFT + _WIDTH + 10}" y="{y + 13}">{bar.ratio:.3g}</text>',
        ]
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + 10
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([opening, f"<style>{_STYLE}</style>", *parts, "</svg>"]) + "\n"


def _ticks(lowest: float, highest: float) -> list[float]:
    decades = range(math.floor(math.log10(lowest)), math.ceil(math.log10(highest)) + 1)
    every = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
    return [value for value in every if lowest <= value <= highest]
