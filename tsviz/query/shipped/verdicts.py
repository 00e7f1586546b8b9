"""Relations that follow verdicts: what became of every request in every round, and what it cost."""

from __future__ import annotations

from .definition import ENDS, PART, SUBMISSION, Relation

_VERDICT = (
    ("submission", "number of the request"),
    ("request", "request id"),
    ("cause", "scheduled, or the one named cause why it had no row"),
    ("holder", "the request in the way; null when none is"),
    ("rule", "the chunk rule that cut to nothing, or the inequality that can never hold; null for other causes"),
    ("op_id", "operation that defers; null for other causes"),
)

VERDICT_RUNS = Relation(
    "verdict_runs",
    "a row a run of rounds in which the same became of a request; only where decisions are known",
    (
        *_VERDICT,
        ("since_round", "first round of the run; that of a slice where it holds since before"),
        ("until_round", "last round of the run: before its next one, its end, or the last round that is known"),
        ("rounds", "how many rounds these are"),
        ("since_before", "it may hold since before the trace, a slice, begins: then since_round is where that begins"),
    ),
    f"""
WITH begun AS (
  SELECT {PART}, min(round) AS begin_round FROM rounds GROUP BY {PART} HAVING min(round) > 1
), carried AS (
  SELECT {SUBMISSION}, begin_round FROM submissions JOIN begun USING ({PART}) WHERE round < begin_round
), ended AS (
  SELECT {SUBMISSION}, min(round) - 1 AS last_round FROM events WHERE kind IN {ENDS} AND applied GROUP BY {SUBMISSION}
), runs AS (
  SELECT {SUBMISSION}, request, cause, holder, rule, op_id, round AS since_round,
    lead(round) OVER (PARTITION BY {SUBMISSION} ORDER BY round) - 1 AS before_next
  FROM verdicts
)
SELECT {SUBMISSION}, request, cause, nullif(holder, '') AS holder, nullif(rule, '') AS rule,
  nullif(op_id, -1) AS op_id, since_round,
  coalesce(before_next, least(ended.last_round, decided_round)) AS until_round, until_round - since_round + 1 AS rounds,
  coalesce(since_round <= begin_round, false) AS since_before
FROM runs LEFT JOIN ended USING ({SUBMISSION}) LEFT JOIN carried USING ({SUBMISSION})
JOIN (SELECT {PART}, decided_round FROM parts) USING ({PART})""",
    "SELECT cause, holder, since_round, until_round FROM verdict_runs WHERE request = 'r6' ORDER BY since_round",
)

VERDICT_ROUNDS = Relation(
    "verdict_rounds",
    "what became of each request in each round, a row a request and round; only where decisions are known",
    (
        ("round", "number of the plan"),
        *_VERDICT,
        ("since_round", "since when this is so, without a change"),
        ("waited_rounds", "plans since then, this one included"),
        ("since_before", "it may hold since before the trace, a slice, begins: then these are at least so many"),
    ),
    f"""
SELECT {PART}, unnest(range(since_round::BIGINT, until_round + 1))::INTEGER AS round, submission, request,
  cause, holder, rule, op_id, since_round, round - since_round + 1 AS waited_rounds, since_before
FROM verdict_runs""",
    "SELECT round, request, holder FROM verdict_rounds WHERE cause = 'head_of_line' AND waited_rounds > 4",
)

CAUSE_COUNTS = Relation(
    "cause_counts",
    "how often each cause was the one, a row a cause; a request in a round counts once",
    (
        ("cause", "scheduled, or why a request had no row"),
        ("requests", "requests that it met"),
        ("runs", "how often it began"),
        ("rounds", "request-rounds that it lasted"),
        ("longest_rounds", "its longest run"),
        ("share", "of all request-rounds of the part"),
    ),
    f"""
SELECT {PART}, cause, count(DISTINCT submission) AS requests, count(*) AS runs, sum(rounds)::BIGINT AS rounds,
  max(rounds) AS longest_rounds, sum(rounds) / sum(sum(rounds)) OVER (PARTITION BY {PART}) AS share
FROM verdict_runs GROUP BY {PART}, cause ORDER BY {PART}, sum(rounds) DESC, cause""",
    "SELECT cause, requests, rounds, longest_rounds FROM cause_counts",
)

LOST_TIME = Relation(
    "lost_time",
    "the time that each request spent without a row, a row a request and cause; only where decisions are known",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("cause", "why it had no row"),
        ("runs", "how often"),
        ("rounds", "rounds that it lasted"),
        ("lost_ns", "from the plan of each run's first round to the plan behind its last; 0 where none follows"),
        ("first_round", "when it was met first"),
    ),
    f"""
WITH times AS (
  SELECT {PART}, round, start_ns, lead(start_ns, 1, start_ns) OVER (PARTITION BY {PART} ORDER BY round) AS next_ns
  FROM rounds
), starts AS (
  SELECT {PART}, round AS since_round, start_ns FROM times
), ends AS (
  SELECT {PART}, round AS until_round, next_ns FROM times
)
SELECT {SUBMISSION}, request, cause, count(*) AS runs, sum(rounds)::BIGINT AS rounds,
  sum(next_ns - start_ns)::BIGINT AS lost_ns, min(since_round) AS first_round
FROM verdict_runs JOIN starts USING ({PART}, since_round) JOIN ends USING ({PART}, until_round)
WHERE cause <> 'scheduled' GROUP BY {SUBMISSION}, request, cause ORDER BY {SUBMISSION}, lost_ns DESC, cause""",
    "SELECT cause, sum(lost_ns) / 1e6 AS lost_ms FROM lost_time GROUP BY cause ORDER BY lost_ms DESC",
)

BLOCKED_BY = Relation(
    "blocked_by",
    "who had no row in the plan of a round, why, and who is at the end of the chain of those in the way",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("cause", "why it had no row"),
        ("holder", "the request in the way; null when none is"),
        ("since_round", "since when this is so, without a change"),
        ("waited_rounds", "plans since then, this one included"),
        ("chain", "the holder, its holder, ... until one has none, is scheduled or stood there before"),
        ("root", "the last of the chain; null without a holder"),
        ("root_cause", "what became of the root in this round"),
    ),
    f"""
WITH RECURSIVE here AS (
  FROM verdict_runs WHERE since_round <= at_round AND until_round >= at_round
), chains AS (
  SELECT {SUBMISSION}, holder AS root, [holder] AS chain FROM here WHERE holder IS NOT NULL AND cause <> 'scheduled'
  UNION ALL
  SELECT c.trace, c.node, c.rank, c.submission, h.holder, list_append(c.chain, h.holder)
  FROM chains c JOIN here h ON c.trace = h.trace AND c.node = h.node AND c.rank = h.rank AND c.root = h.request
  WHERE h.holder IS NOT NULL AND h.cause <> 'scheduled' AND NOT list_contains(c.chain, h.holder)
), longest AS (
  SELECT {SUBMISSION}, arg_max(chain, len(chain)) AS chain, arg_max(root, len(chain)) AS root
  FROM chains GROUP BY {SUBMISSION}
), roots AS (
  SELECT {PART}, request AS root, cause AS root_cause FROM here
)
SELECT {SUBMISSION}, request, cause, holder, since_round, at_round - since_round + 1 AS waited_rounds,
  chain, root, root_cause
FROM here LEFT JOIN longest USING ({SUBMISSION}) LEFT JOIN roots USING ({PART}, root)
WHERE cause <> 'scheduled' ORDER BY {SUBMISSION}""",
    "SELECT request, cause, root, root_cause FROM blocked_by(8)",
    ("at_round",),
)

RELATIONS = (VERDICT_RUNS, VERDICT_ROUNDS, CAUSE_COUNTS, LOST_TIME, BLOCKED_BY)
