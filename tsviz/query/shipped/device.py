"""Relations on what a real device said of itself."""

from __future__ import annotations

from .definition import PART, Relation

PAGE_CHANGES = Relation(
    "page_changes",
    "blocks that an operation found otherwise than the last one before it (in the order of submission) had left them:"
    " somebody wrote who should not have, or not yet; needs `page_crcs`",
    (
        ("round", "round of the operation"),
        ("op", "the operation"),
        ("kind", "what it is"),
        ("space", "device or host"),
        ("group", "cache group"),
        ("page", "page"),
        ("layer", "layer"),
        ("found_crc32", "checksum as the operation found it"),
        ("left_crc32", "checksum as it had been left"),
        ("left_round", "round of the operation that left it"),
        ("left_op", "that operation"),
        ("left_kind", "what that is"),
    ),
    f"""
WITH each AS (
  SELECT {PART}, c.round, op, d.kind, c.space, c."group", c.page, c.layer, c.writes, c.crc32
  FROM page_crcs c JOIN device_ops d USING ({PART}, op)
  WHERE c.space IN ('device', 'host') AND c.layer IS NOT NULL
), behind AS (
  SELECT *,
    last_value(CASE WHEN writes THEN {{'crc32': crc32, 'round': round, 'op': op, 'kind': kind}} END IGNORE NULLS) OVER (
      PARTITION BY {PART}, space, "group", page, layer ORDER BY op, writes
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last
  FROM each
)
SELECT {PART}, round, op, kind, space, "group", page, layer, crc32 AS found_crc32, last.crc32 AS left_crc32,
  last.round AS left_round, last.op AS left_op, last.kind AS left_kind
FROM behind WHERE NOT writes AND last IS NOT NULL AND crc32 <> last.crc32
ORDER BY {PART}, op, space, "group", page, layer""",
    'SELECT round, kind, "group", page, left_round, left_kind FROM page_changes',
)

DEVICE_STALLS = Relation(
    "device_stalls",
    "operations whose stream stood still for another one: nothing was before them on their own, they were queued, and"
    " they waited for an event; a forward that waits for a copy is slow and computes nothing",
    (
        ("round", "round of the operation"),
        ("op", "the operation"),
        ("stream", "its stream"),
        ("kind", "what it is"),
        ("layer", "the layer, of one that touches one"),
        ("ready_ns", "when it was queued and its stream was free"),
        ("stall_ns", "how long it then waited, for the last of the operations that it waits for"),
        ("alone_ns", "of that, for that one alone: all others that it waits for had ended"),
        ("for_op", "that operation"),
        ("for_kind", "what that is"),
        ("for_stream", "its stream"),
        ("for_round", "its round"),
    ),
    f"""
WITH each AS (
  SELECT {PART}, round, op, stream, kind, layer, waits, start_ns, end_ns,
    greatest(submit_ns, coalesce(max(end_ns) OVER (
      PARTITION BY {PART}, stream ORDER BY op ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)) AS ready_ns
  FROM device_ops
), awaited AS (
  SELECT e.trace, e.node, e.rank, e.round, e.op, e.stream, e.kind, e.layer, e.ready_ns, e.start_ns,
    max_by(struct_pack(op := w.op, kind := w.kind, stream := w.stream, round := w.round, end_ns := w.end_ns), w.end_ns)
      AS last,
    coalesce(max(w.end_ns, 2)[2], 0) AS others_ns
  FROM (SELECT *, unnest(waits) AS for_op FROM each) e JOIN each w ON w.op = e.for_op
    AND w.trace = e.trace AND w.node = e.node AND w.rank = e.rank AND w.stream <> e.stream
  GROUP BY ALL
)
SELECT {PART}, round, op, stream, kind, layer, ready_ns, least(start_ns, last.end_ns) - ready_ns AS stall_ns,
  greatest(least(start_ns, last.end_ns) - greatest(ready_ns, others_ns), 0) AS alone_ns,
  last.op AS for_op, last.kind AS for_kind, last.stream AS for_stream, last.round AS for_round
FROM awaited WHERE least(start_ns, last.end_ns) > ready_ns
ORDER BY {PART}, op""",
    "SELECT kind, for_kind, sum(alone_ns) / 1e6 AS ms FROM device_stalls GROUP BY ALL ORDER BY ms DESC",
)

RELATIONS = (PAGE_CHANGES, DEVICE_STALLS)
