"""Numbers for people: separators, signs, units, times, and bars whose length is the number."""

from __future__ import annotations

import datetime

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"


def grouped(number: int) -> str:
    """Return `12,345` for 12345."""
    return f"{number:,}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return `1 page`, `2 pages`; `many` is for words that do not take an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(part: int, whole: int) -> str:
    """Return `53.1 %`; a dash where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else "–"


def clock_time(time_ns: int) -> str:
    """Return a time on the part's clock with all its digits down to a microsecond: `1 h 02 min 03.004 005 s`."""
    sign, time_us = ("-", -time_ns // 1000) if time_ns < 0 else ("", time_ns // 1000)
    minutes, rest_us = divmod(time_us, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest_us // 1_000_000:02d}.{rest_us // 1000 % 1000:03d} {rest_us % 1000:03d} s"
    if hours:
        return f"{sign}{hours} h {minutes:02d} min {text}"
    return f"{sign}{minutes} min {text}" if minutes else f"{sign}{text.removeprefix('0')}"


def instant(time_ns: int, step_ns: float) -> str:
    """Return a time since the start as `go to` takes it, in as many digits as `step_ns` shows: `2m03.5s`."""
    digits = next((digits for digits in range(4) if step_ns >= 10 ** (9 - digits)), 3)
    minutes, rest_ns = divmod(round(time_ns, digits - 9), 60 * 10**9)
    seconds = f"{rest_ns / 1e9:.{digits}f}s"
    if not minutes:
        return seconds
    hours, minutes = divmod(minutes, 60)
    padded = f"{seconds:0>{digits + 3 + bool(digits)}}"
    return f"{hours}h{minutes:02d}m{padded}" if hours else f"{minutes}m{padded}"


def time_of_day(wall_ns: int, step_ns: float) -> str:
    """Return a moment (ns since 1970) as a time of day, UTC, in as many digits as `step_ns` shows: `02:51:07.5`."""
    digits = next((digits for digits in range(4) if step_ns >= 10 ** (9 - digits)), 3)
    seconds, rest_ns = divmod(round(wall_ns, digits - 9), 10**9)
    clock = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{clock}.{rest_ns // 10 ** (9 - digits):0{digits}d}" if digits else clock


def day(wall_ns: int) -> str:
    """Return the day of a moment (ns since 1970), UTC, as `go to` takes it: `2026-11-30`."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=wall_ns // (86_400 * 10**9))).isoformat()


def duration(time_ns: float) -> str:
    """Return a length of time in three digits and a unit people use: `723 ms`, `14.8 s`, `3 min 41 s`, `2 h 05 min`."""
    if time_ns >= 60e9:
        minutes, seconds = divmod(round(time_ns / 1e9), 60)
        hours, rest = divmod(minutes, 60)
        return f"{grouped(hours)} h {rest:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    for unit_ns, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if time_ns >= unit_ns:
            value = time_ns / unit_ns
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{time_ns:.0f} ns"


def size(count_bytes: int) -> str:
    """Return an amount of bytes in three digits: `512 B`, `17.4 kB`, `2.95 MB`."""
    for unit_bytes, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count_bytes >= unit_bytes:
            value = count_bytes / unit_bytes
            return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{count_bytes} B"


def bar(part: int, whole: int, cells: int) -> tuple[str, str]:
    """Return the full and the empty piece of a bar of `cells` cells, exact to an eighth of a cell.

    Anything above nothing shows at least a sliver, and anything below everything leaves one.
    """
    if cells <= 0:
        return "", ""
    share = min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0
    eighths = round(share * cells * 8)
    if share > 0:
        eighths = max(eighths, 1)
    if share < 1:
        eighths = min(eighths, cells * 8 - 1)
    full, rest = divmod(eighths, 8)
    text = "█" * full + (_EIGHTHS[rest] if rest else "")
    return text, " " * (cells - len(text))


def level(part: int, whole: int) -> str:
    """Return one of nine column heights for `part` of `whole`: blank only for nothing, full only for everything."""
    if whole <= 0 or part <= 0:
        return _LEVELS[0]
    if part >= whole:
        return _LEVELS[8]
    return _LEVELS[min(max(round(8 * part / whole), 1), 7)]
