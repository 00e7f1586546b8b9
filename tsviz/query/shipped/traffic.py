"""Relations that follow what goes between tiers and ranks: transfers with their answers, ranks that disagree."""

from __future__ import annotations

from .definition import PART, Relation

ACKS = Relation(
    "acks",
    "a row a store or load with its acknowledgement and how long that took",
    (
        ("op_id", "operation"),
        ("kind", "write_back or load_back"),
        ("round", "round that asked for it"),
        ("pages", "pages that it moves"),
        ("storage_pages", "pages that must first come from the storage tier"),
        ("acknowledged_round", "round of the plan in front of which it was acknowledged; null if never"),
        ("age_rounds", "plans from the one to the other, or to the last of the trace"),
        ("age_ns", "time from the plan to the acknowledgement; null without one, and where the plan is before a slice"),
        ("success", "what a load says of itself; null for stores and without an acknowledgement"),
    ),
    f"""
WITH operation AS (
  SELECT {PART}, op_id, kind, min(round) AS round, count(*) AS pages, count_if(from_storage)::BIGINT AS storage_pages
  FROM transfers GROUP BY {PART}, op_id, kind
), answered AS (
  SELECT {PART}, op_id, min(round) AS acknowledged_round, min(call_seq) AS seq,
    arg_min(CASE kind WHEN 'load_back_done' THEN value = 1 END, call_seq) AS success
  FROM events WHERE kind IN ('write_back_done', 'load_back_done') GROUP BY {PART}, op_id
), last AS (
  SELECT {PART}, max(round) AS last_round FROM rounds GROUP BY {PART}
)
SELECT {PART}, op_id, kind, round, pages, storage_pages, acknowledged_round,
  coalesce(acknowledged_round, last_round) - round AS age_rounds, calls.time_ns - r.start_ns AS age_ns, success
FROM operation JOIN last USING ({PART}) LEFT JOIN answered USING ({PART}, op_id)
LEFT JOIN (SELECT {PART}, seq, time_ns FROM calls) calls USING ({PART}, seq)
LEFT JOIN (SELECT {PART}, round, start_ns FROM rounds) r USING ({PART}, round)
ORDER BY {PART}, op_id""",
    "SELECT kind, count(*) AS operations, max(age_rounds) AS slowest FROM acks GROUP BY kind",
)

RANK_DIVERGENCE = Relation(
    "rank_divergence",
    "every rank of a node against its lowest: ranks of one node must make the same plans",
    (
        ("against_rank", "the lowest rank of the node"),
        ("compared_rounds", "rounds that both have"),
        ("different_rounds", "rounds whose digests differ: structure, or content where both have it"),
        ("first_round", "the first of them; null when the ranks agree"),
    ),
    """
WITH lowest AS (
  SELECT trace, node, min(rank) AS against_rank FROM parts GROUP BY trace, node
), pairs AS (
  SELECT p.trace, p.node, p.rank, against_rank FROM parts p JOIN lowest USING (trace, node) WHERE p.rank > against_rank
)
SELECT p.trace, p.node, p.rank, against_rank, count(b.round) AS compared_rounds,
  count_if(b.digest_structural <> a.digest_structural OR coalesce(b.digest_content <> a.digest_content, false))::BIGINT
    AS different_rounds,
  min(b.round) FILTER (b.digest_structural <> a.digest_structural
    OR coalesce(b.digest_content <> a.digest_content, false)) AS first_round
FROM pairs p LEFT JOIN rounds b ON p.trace = b.trace AND p.node = b.node AND p.rank = b.rank
LEFT JOIN rounds a ON p.trace = a.trace AND p.node = a.node AND a.rank = against_rank AND a.round = b.round
WHERE a.round IS NOT NULL GROUP BY ALL ORDER BY p.trace, p.node, p.rank""",
    "SELECT node, rank, against_rank, first_round FROM rank_divergence WHERE different_rounds > 0",
)

RELATIONS = (ACKS, RANK_DIVERGENCE)
