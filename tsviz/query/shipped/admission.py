"""Relations that follow admissions: what they needed, what was there, what they reserve, and who holds the line."""

from __future__ import annotations

from .definition import PART, SUBMISSION, Relation

DEMANDS = Relation(
    "demands",
    "what each admission attempt needed, a row a group",
    (
        ("round", "number of the plan"),
        ("stop", "stop of the attempt"),
        ("submission", "number of the request"),
        ("request", "request id"),
        ("kind", "first_chunk, remote_landing, later_chunk or decode"),
        ("group_index", "position of the group"),
        ("group", "its name"),
        ("need_pages", "new device pages"),
        ("fresh_pages", "pages that it got to be zeroed; null unless it was granted"),
        ("hit_tokens", "prefix hit that the demand was sized for"),
        ("outcome", "granted, or refused for capacity"),
    ),
    f"""
WITH tried AS (
  SELECT {SUBMISSION}, request, round, stop, kind, hit_tokens, unnest(need_pages) AS need_pages,
    generate_subscripts(need_pages, 1)::INTEGER - 1 AS group_index
  FROM attempts
), granted AS (
  SELECT {SUBMISSION}, round, stop, unnest(fresh_pages) AS fresh_pages,
    generate_subscripts(fresh_pages, 1)::INTEGER - 1 AS group_index
  FROM admissions
), refused AS (
  SELECT DISTINCT {SUBMISSION}, round, stop, true AS refused FROM refusals
), named AS (
  SELECT {PART}, group_index, "group" FROM groups
)
SELECT {PART}, round, stop, submission, request, kind, group_index, "group", need_pages, fresh_pages, hit_tokens,
  CASE WHEN fresh_pages IS NOT NULL THEN 'granted' WHEN refused THEN 'refused' END AS outcome
FROM tried LEFT JOIN granted USING ({SUBMISSION}, round, stop, group_index)
LEFT JOIN refused USING ({SUBMISSION}, round, stop) LEFT JOIN named USING ({PART}, group_index)
ORDER BY {PART}, round, stop, group_index""",
    "SELECT request, kind, need_pages, outcome FROM demands WHERE round = 101",
)

DEFICITS = Relation(
    "deficits",
    "what each refusal for capacity lacked, a row a group; parents are shared by the groups",
    (
        ("round", "number of the plan"),
        ("stop", "stop of the refusal"),
        ("submission", "number of the request"),
        ("request", "request id"),
        ("group_index", "position of the group"),
        ("group", "its name"),
        ("need_pages", "new device pages that it needs"),
        ("free_pages", "pages of the group that were free, were all free parents the group's own"),
        ("reachable_pages", "pages that would be, after every eviction it may cause"),
        ("deficit_pages", "need_pages - reachable_pages, 0 if it would fit alone"),
        ("need_parents", "LCM parents that the request needs for all groups, beyond what is left in their own"),
        ("reachable_parents", "LCM parents that would be free after every eviction it may cause"),
        ("deficit_parents", "need_parents - reachable_parents: what a retraction must free; above 0 for every refusal"),
    ),
    f"""
WITH each AS (
  SELECT {SUBMISSION}, request, round, stop, free_blocks, reachable_blocks,
    generate_subscripts(need_pages, 1)::INTEGER - 1 AS group_index, unnest(need_pages) AS need_pages,
    unnest(free_local_pages) AS free_local, unnest(reachable_local_pages) AS reachable_local
  FROM refusals
), named AS (
  SELECT {PART}, group_index, "group", parent_pages FROM groups
), sized AS (
  SELECT *, coalesce(parent_pages, 1) AS size,
    greatest(0, ceil((need_pages - reachable_local) / coalesce(parent_pages, 1)))::INTEGER AS parents
  FROM each LEFT JOIN named USING ({PART}, group_index)
)
SELECT {PART}, round, stop, submission, request, group_index, "group", need_pages,
  free_local + free_blocks * size AS free_pages, reachable_local + reachable_blocks * size AS reachable_pages,
  greatest(0, need_pages - reachable_pages)::INTEGER AS deficit_pages,
  sum(parents) OVER (PARTITION BY {SUBMISSION}, round, stop)::INTEGER AS need_parents,
  reachable_blocks AS reachable_parents, need_parents - reachable_parents AS deficit_parents
FROM sized ORDER BY {PART}, round, stop, group_index""",
    'SELECT round, request, "group", need_pages, reachable_pages, deficit_parents FROM deficits WHERE round = 101',
)

RESERVE_TERMS = Relation(
    "reserve_terms",
    "what a prefill attempt holds beyond its chunk if it is granted, a row a term that is above 0",
    (
        ("round", "number of the plan"),
        ("stop", "stop in front of the attempt: the candidate's, or behind a retraction that turn's"),
        ("submission", "number of the request"),
        ("request", "request id"),
        ("term", "decode_slot, rest_of_prompt, headroom or growth"),
        ("tokens", "how many"),
        ("held_by", "groups that hold it: all, full_history (rest_of_prompt only beside headroom), none, or state"),
    ),
    f"""
WITH terms AS (
  SELECT {PART}, round, stop, submission, request, headroom_tokens > 0 AS prepaid,
    unnest(['decode_slot', 'rest_of_prompt', 'headroom', 'growth']) AS term,
    unnest([decode_tokens, rest_of_prompt_tokens, headroom_tokens, growth_tokens]) AS tokens
  FROM reserves
)
SELECT {PART}, round, stop, submission, request, term, tokens,
  CASE term WHEN 'decode_slot' THEN 'all' WHEN 'growth' THEN 'state' WHEN 'headroom' THEN 'full_history'
    ELSE if(prepaid, 'full_history', 'none') END AS held_by
FROM terms WHERE tokens > 0
ORDER BY {PART}, round, stop, list_position(['decode_slot', 'rest_of_prompt', 'headroom'], term)""",
    "SELECT round, request, term, tokens FROM reserve_terms WHERE term = 'headroom' LIMIT 20",
)

HEADROOM_HELD = Relation(
    "headroom_held",
    "pages that requests hold behind the plan of a round for tokens that are not there yet, in full-history groups",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("group", "cache group"),
        ("table_tokens", "tokens that its table has room for"),
        ("known_tokens", "its prompt and the tokens that landed in front of the plan"),
        ("unused_pages", "whole pages behind the known tokens"),
        ("headroom_tokens", "headroom of its last admission; null where decisions are not known, and before a slice"),
    ),
    f"""
WITH live AS (
  SELECT {SUBMISSION}, request, prompt_tokens
  FROM requests SEMI JOIN (FROM parts WHERE last_round >= at_round) USING ({PART})
  WHERE accepted AND submit_round <= at_round AND (end_round IS NULL OR end_round > at_round)
), held AS (
  SELECT {SUBMISSION}, "group", arg_max(length_slots, round) AS slots
  FROM table_changes WHERE round <= at_round GROUP BY {SUBMISSION}, "group"
), landed AS (
  SELECT {SUBMISSION}, sum(token_count)::BIGINT AS landed FROM events
  WHERE applied AND round <= at_round GROUP BY {SUBMISSION}
), reserved AS (
  SELECT {SUBMISSION}, arg_max(r.headroom_tokens, (r.round, r.stop)) AS headroom_tokens
  FROM reserves r SEMI JOIN (
    SELECT {SUBMISSION}, round, stop AS granted_stop FROM admissions
  ) a ON r.trace = a.trace AND r.node = a.node AND r.rank = a.rank AND r.submission = a.submission
    AND r.round = a.round AND r.stop <= granted_stop
  WHERE r.round <= at_round GROUP BY {SUBMISSION}
)
SELECT {SUBMISSION}, request, "group", (slots * block_tokens)::BIGINT AS table_tokens,
  prompt_tokens + coalesce(landed, 0) AS known_tokens,
  greatest(0, slots * block_tokens - known_tokens) // block_tokens AS unused_pages, headroom_tokens
FROM live JOIN held USING ({SUBMISSION})
JOIN (FROM groups WHERE family = 'History' AND retention = 'FullHistory') USING ({PART}, "group")
LEFT JOIN landed USING ({SUBMISSION}) LEFT JOIN reserved USING ({SUBMISSION})
ANTI JOIN (FROM waiting(at_round)) away USING ({SUBMISSION})
ORDER BY {SUBMISSION}, "group\"""",
    "SELECT request, known_tokens, unused_pages FROM headroom_held(100) ORDER BY unused_pages DESC",
    ("at_round",),
)

LINE_HOLDS = Relation(
    "line_holds",
    "a row a round in which an incomplete prefill held the line, as the scheduler decided it, and who stood behind it",
    (
        ("round", "number of the plan"),
        ("submission", "number of the request that holds"),
        ("request", "its id"),
        ("computed_tokens", "positions of its prompt that are computed"),
        ("left_tokens", "positions that its prefill still needs"),
        ("held_requests", "requests whose verdict of this round names it as head of line"),
    ),
    f"""
WITH behind AS (
  SELECT {PART}, holder AS request, since_round, until_round FROM verdict_runs WHERE cause = 'head_of_line'
), counted AS (
  SELECT h.trace, h.node, h.rank, h.round, h.request, count(*) AS held_requests
  FROM holds h JOIN behind b ON h.trace = b.trace AND h.node = b.node AND h.rank = b.rank AND h.request = b.request
    AND h.round BETWEEN b.since_round AND b.until_round
  GROUP BY ALL
)
SELECT {PART}, round, submission, request, computed_tokens, prompt_tokens - computed_tokens AS left_tokens,
  coalesce(held_requests, 0) AS held_requests
FROM holds LEFT JOIN counted USING ({PART}, round, request) ORDER BY {PART}, round""",
    "SELECT request, count(*) AS rounds, max(held_requests) AS most_held FROM line_holds GROUP BY trace, node, request",
)

RELATIONS = (DEMANDS, DEFICITS, RESERVE_TERMS, HEADROOM_HELD, LINE_HOLDS)
