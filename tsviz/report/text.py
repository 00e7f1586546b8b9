"""The door: every string of a trace passes here before it reaches the page; and numbers for people."""

from __future__ import annotations

import html
import json
import math
import re
from typing import Any

_HIDDEN = (
    0x00AD, 0x061C, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF,
    *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
)  # fmt: skip
_STAND_INS = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys(_HIDDEN, 0xFFFD),
}
_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINER = re.compile(f"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])")
"""Between two emoji a joiner hides nothing: it is left out rather than replaced."""
_LONGEST = 200
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def clean(text: object) -> str:
    """Return the text without characters that change direction, take no room or cannot be stored; long ones are cut."""
    cleaned = sentence(text)
    return cleaned if len(cleaned) <= _LONGEST else cleaned[: _LONGEST - 1] + "…"


def escape(text: object) -> str:
    """Return the text for HTML, inside an element or a quoted attribute."""
    return html.escape(sentence(text), quote=True)


def sentence(text: object) -> str:
    """Return a text of any length without the characters that `clean` replaces."""
    return _JOINER.sub("", str(text)).translate(_STAND_INS)


def charted(text: object) -> str:
    """Return the text for a string of plotly, which reads tags, entities and `%{...}` in all of them."""
    return html.escape(clean(text), quote=False).replace("%{", "% {")


def embedded(value: Any) -> str:
    """Return a value as JSON that may stand in a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 page`, `2,000 pages`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    """Return `53.1 %`; a dash where there is no share."""
    return "–" if share is None else f"{100 * share:.1f}\u00a0%" if 0 < share < 0.9995 else f"{100 * share:.0f}\u00a0%"


def duration(time_ns: float | None) -> str:
    """Return three digits with the unit that fits: `1.23 s`, `48.9 ms`; minutes from two of them on."""
    if time_ns is None:
        return "–"
    if time_ns >= 120e9:
        minutes, seconds = divmod(round(time_ns / 1e9), 60)
        return f"{minutes}\u00a0min {seconds:02d}\u00a0s"
    scale, unit = next((u for u in _UNITS if time_ns >= u[0]), _UNITS[-1])
    value = time_ns / scale
    digits = max(0, 2 - math.floor(math.log10(value))) if value >= 1 else 0
    return f"{value:.{digits}f}\u00a0{unit}"
