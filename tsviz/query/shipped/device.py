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

RELATIONS = (PAGE_CHANGES,)
