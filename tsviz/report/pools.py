"""Charts of the pool: who holds the device, and the cache of each group."""

from __future__ import annotations

from .axis import Axis
from .chart import DASHES, Chart, area, line, y_axis
from .subject import Row, Source
from .text import counted

_MOST_GROUPS = 6


def pool(source: Source, axis: Axis) -> Chart:
    """Return what the LCM blocks of the device are; needs decisions."""
    rows = source.rows(
        f"{axis.column()} AS bin, avg(active_blocks) AS active, avg(available_blocks - empty_blocks) AS cached,"
        " avg(empty_blocks) AS empty", "pool", '"group" = 0', "GROUP BY bin ORDER BY bin",
    )  # fmt: skip
    active, cached, empty = (axis.filled(rows, name) for name in ("active", "cached", "empty"))
    layers = [area("held by requests", "pool", active), area("cache, can be evicted", "cached", cached),
              area("empty", "empty", empty)]  # fmt: skip
    least = source.first("available_blocks AS least, round", "pool", "least, round")
    says = f"Fewest that could be had: {least['least']:,} blocks (round {least['round']:,})."
    return Chart("pool", "Device pool", says, layers, y_axis("LCM blocks"))


def empty_pages(source: Source, axis: Axis, part: Row) -> Chart:
    """Return the empty LCM parents, which every trace has; `part` is its row of `parts`."""
    rows = axis.means(source, "pool_timeline", "empty_pages")
    least = source.first("empty_pages AS least, round", "pool_timeline", "least, round")
    says = (
        f"Fewest empty: {least['least']:,} of {part['device_pages'] - 1:,} LCM parents (round {least['round']:,})."
        f" What the others hold is not known without decisions (tsviz index)."
    )
    return Chart("pool", "Device pool", says, [area("empty", "cached", axis.filled(rows, "empty_pages"))],
                 y_axis("LCM parents"))  # fmt: skip


def cached_pages(source: Source, axis: Axis) -> list[Chart]:
    """Return the pages of each group in the device index; needs decisions."""
    groups = source.rows('group_index, "group"', "groups", behind="ORDER BY group_index")[:_MOST_GROUPS]
    layers = []
    for number, group in enumerate(groups):
        where = f'"group" = {group["group_index"]:d}'
        values = axis.filled(axis.means(source, "pool", "cached_pages", where=where), "cached_pages")
        layers.append(line(f"{group['group']}", f"c{number + 1}", values, DASHES[number % len(DASHES)]))
    says = f"Pages in the device index, of {counted(len(groups), 'group')}."
    return [Chart("cached", "Cached pages of each group", says, layers, y_axis("pages"))] if layers else []
