"""Relations that follow pages: block tables, the life of a page, the pool, transfers."""

from __future__ import annotations

from .definition import ENDS, PART, SUBMISSION, Relation

BLOCK_TABLE = Relation(
    "block_table",
    "the block tables of a request as of its last row up to a round, rebuilt from the differences; empty once it ended",
    (
        ("submission", "number of the request: the latest one of that id"),
        ("group", "cache group"),
        ("slot", "slot of the table, from 0"),
        ("page", "page id; 0 is a hole"),
        ("since_round", "round that wrote the slot; of what a slice carries that before its first"),
    ),
    f"""
WITH changes AS (
  FROM table_changes WHERE request = request_id AND round <= at_round
), latest AS (
  SELECT {PART}, max(submission) AS submission FROM changes GROUP BY {PART}
), live AS (
  FROM changes SEMI JOIN latest USING ({SUBMISSION})
  ANTI JOIN (
    SELECT {SUBMISSION} FROM events WHERE kind IN {ENDS} AND applied AND round <= at_round
  ) ended USING ({SUBMISSION})
), bounded AS (
  SELECT *, max(round) FILTER (fresh) OVER w AS fresh_round, last_value(length_slots) OVER w AS last_length
  FROM live WINDOW w AS (PARTITION BY {SUBMISSION}, "group" ORDER BY round
    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
), written AS (
  SELECT {SUBMISSION}, "group", round, last_length,
    first_slot + generate_subscripts(pages, 1) - 1 AS slot, unnest(pages) AS page
  FROM bounded WHERE round >= coalesce(fresh_round, 0)
)
SELECT {SUBMISSION}, "group", slot::INTEGER AS slot, arg_max(page, round) AS page, max(round) AS since_round
FROM written WHERE slot < last_length
GROUP BY {SUBMISSION}, "group", slot ORDER BY {SUBMISSION}, "group", slot""",
    "FROM block_table('a', 3)",
    ("request_id", "at_round"),
)

PAGE_LIFE = Relation(
    "page_life",
    "what happened to a page of a group, in order (cached pages and transfers are not told apart here)",
    (
        ("round", "number of the plan"),
        ("what", "taken (fresh, to be zeroed), placed, replaced (its slot got something else) or owner_ended"),
        ("request", "the request whose table is meant; null for taken"),
        ("submission", "its number"),
        ("slot", "slot of that table"),
    ),
    f"""
WITH placed AS (
  SELECT {SUBMISSION}, request, round, (first_slot + list_position(pages, page_id) - 1)::INTEGER AS slot
  FROM table_changes WHERE "group" = group_name AND list_contains(pages, page_id)
), owners AS (
  SELECT {SUBMISSION}, request, min(round) AS first_round FROM placed GROUP BY {SUBMISSION}, request
), changed AS (
  SELECT {SUBMISSION}, round, fresh, first_slot, pages FROM table_changes SEMI JOIN owners USING ({SUBMISSION})
  WHERE "group" = group_name
), written AS (
  SELECT p.trace, p.node, p.rank, p.submission, p.request, p.slot, p.round AS placed_round, c.round,
    bool_or(coalesce(c.pages[p.slot - c.first_slot + 1] = page_id, false)) AS same
  FROM placed p JOIN changed c ON p.trace = c.trace AND p.node = c.node AND p.rank = c.rank
    AND p.submission = c.submission AND c.round > p.round
    AND (c.fresh OR (p.slot >= c.first_slot AND p.slot < c.first_slot + len(c.pages)))
  GROUP BY ALL
), replaced AS (
  SELECT {SUBMISSION}, request, slot, placed_round, min(round) FILTER (NOT same) AS round
  FROM written GROUP BY ALL
), ended AS (
  SELECT {SUBMISSION}, min(round) AS round FROM events SEMI JOIN owners USING ({SUBMISSION})
  WHERE kind IN {ENDS} AND applied GROUP BY {SUBMISSION}
), told AS (
  SELECT {PART}, round, 0 AS turn, 'taken' AS what, NULL AS request, NULL AS submission, NULL AS slot
  FROM zeroed WHERE "group" = group_name AND page = page_id
  UNION ALL SELECT {PART}, round, 1, 'placed', request, submission, slot FROM placed
  UNION ALL SELECT DISTINCT {PART}, round, -1, 'replaced', request, submission, slot FROM replaced
    WHERE round IS NOT NULL
  UNION ALL SELECT trace, node, rank, e.round, -2, 'owner_ended', request, submission, NULL
  FROM owners JOIN ended e USING ({SUBMISSION})
)
SELECT {PART}, round, what, request, submission, slot FROM told ORDER BY {PART}, round, turn, submission""",
    "SELECT round, what, request, slot FROM page_life('full', 1)",
    ("group_name", "page_id"),
)

POOL_TIMELINE = Relation(
    "pool_timeline",
    "the pool and the requests behind each plan, with the pages that it took and moved",
    (
        ("round", "number of the plan"),
        ("start_ns", "when it was asked for"),
        ("empty_pages", "LCM parents that hold nothing"),
        ("taken_pages", "fresh pages that the plan acquired"),
        ("stored_pages", "pages that its stores move to the host"),
        ("loaded_pages", "pages that its loads move to the device"),
        ("waiting_requests", "requests in Submitted or Retracted"),
        ("prefilling_requests", "requests that prefill or await its result"),
        ("decoding_requests", "requests in Decoding"),
        ("retracted_requests", "requests that the plan retracted"),
    ),
    f"""
WITH taken AS (
  SELECT {PART}, round, count(*) AS taken FROM zeroed GROUP BY {PART}, round
), moved AS (
  SELECT {PART}, round, count_if(kind = 'write_back') AS stored, count_if(kind = 'load_back') AS loaded
  FROM transfers GROUP BY {PART}, round
)
SELECT trace, node, rank, round, start_ns, empty_pages, coalesce(taken, 0) AS taken_pages,
  coalesce(stored, 0)::BIGINT AS stored_pages, coalesce(loaded, 0)::BIGINT AS loaded_pages,
  waiting_requests, prefilling_requests, decoding_requests, retracted_requests
FROM rounds LEFT JOIN taken USING ({PART}, round) LEFT JOIN moved USING ({PART}, round)
ORDER BY {PART}, round""",
    "SELECT round, empty_pages, taken_pages FROM pool_timeline WHERE empty_pages < 4",
)

TRANSFERS_OPEN = Relation(
    "transfers_open",
    "a row a store or load that is not acknowledged behind the plan of a round, or at the end of the trace",
    (
        ("op_id", "operation"),
        ("kind", "write_back or load_back"),
        ("round", "round that asked for it"),
        ("open_rounds", "plans since then"),
        ("pages", "pages that it moves"),
        ("source_pinned", "the store pins its sources until then; null for loads"),
        ("storage_pages", "pages that must first come from the storage tier"),
        ("acknowledged_round", "round of the plan in front of which it is acknowledged; null if never"),
    ),
    f"""
WITH operation AS (
  SELECT {PART}, op_id, kind, min(round) AS round, count(*) AS pages, bool_or(source_pinned) AS source_pinned,
    count_if(from_storage)::BIGINT AS storage_pages
  FROM transfers GROUP BY {PART}, op_id, kind
), acknowledged AS (
  SELECT {PART}, op_id, min(round) AS acknowledged_round
  FROM events WHERE kind IN ('write_back_done', 'load_back_done') GROUP BY {PART}, op_id
), here AS (
  SELECT {PART}, coalesce(at_round, max(round)) AS position, at_round IS NULL AS at_end FROM rounds GROUP BY {PART}
)
SELECT trace, node, rank, op_id, kind, round, position - round AS open_rounds, pages, source_pinned, storage_pages,
  acknowledged_round
FROM operation JOIN here USING ({PART}) LEFT JOIN acknowledged USING ({PART}, op_id)
WHERE round <= position AND (acknowledged_round IS NULL OR (NOT at_end AND acknowledged_round > position))
ORDER BY {PART}, op_id""",
    "SELECT op_id, kind, open_rounds, pages FROM transfers_open() ORDER BY open_rounds DESC",
    ("at_round := NULL",),
)

RELATIONS = (BLOCK_TABLE, PAGE_LIFE, POOL_TIMELINE, TRANSFERS_OPEN)
