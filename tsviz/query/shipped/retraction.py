"""Relations that follow retractions: who had to go for whom, and who else could have."""

from __future__ import annotations

from .definition import PART, Relation

RETRACTION_CYCLES = Relation(
    "retraction_cycles",
    "who was retracted and who came in next, a row a pair, and how often it went the other way round",
    (
        ("victim", "the request that gave its pages"),
        ("taker", "the request that was admitted first behind the retraction; null if nobody was"),
        ("times", "how often"),
        ("back_times", "how often the taker gave way and the victim came in: above 0 they evict each other"),
        ("self_times", "times in which the victim itself was the one that lacked pages"),
        ("blockers", "requests that lacked the pages"),
        ("first_round", "round of the first time"),
        ("last_round", "round of the last time"),
    ),
    f"""
WITH gone AS (
  SELECT {PART}, victim, blocker, round, round::BIGINT * 2147483648 + stop AS at
  FROM retractions WHERE outcome = 'retracted'
), came AS (
  SELECT {PART}, request AS taker, round::BIGINT * 2147483648 + stop AS at
  FROM admissions SEMI JOIN (FROM attempts WHERE kind IN ('first_chunk', 'remote_landing'))
    USING ({PART}, round, stop, submission)
), pairs AS (
  SELECT g.trace, g.node, g.rank, victim, taker, count(*) AS times, count_if(victim = blocker)::BIGINT AS self_times,
    list_sort(list(DISTINCT blocker)) AS blockers, min(round) AS first_round, max(round) AS last_round
  FROM gone g ASOF LEFT JOIN came c
    ON g.trace = c.trace AND g.node = c.node AND g.rank = c.rank AND g.at < c.at
  GROUP BY g.trace, g.node, g.rank, victim, taker
), back AS (
  SELECT {PART}, taker AS victim, victim AS taker, times AS back_times FROM pairs WHERE taker <> victim
)
SELECT {PART}, victim, taker, times, coalesce(back_times, 0) AS back_times, self_times, blockers,
  first_round, last_round
FROM pairs LEFT JOIN back USING ({PART}, victim, taker) ORDER BY {PART}, times DESC, first_round, victim, taker""",
    "SELECT victim, taker, times, back_times FROM retraction_cycles WHERE back_times > 0",
)

VICTIM_RANKING = Relation(
    "victim_ranking",
    "the candidates of the retraction loop in a round, in the order in which they would have been chosen",
    (
        ("stop", "stop of the turn of the loop"),
        ("blocker", "the request that lacks pages"),
        ("choice", "0 is chosen first; null when exempt"),
        ("request", "request id"),
        ("submission", "its number"),
        ("tier", "prefill or decode"),
        ("releasable_blocks", "LCM blocks that its tables alone hold (decode tier)"),
        ("tokens", "its tokens: what has to be computed again"),
        ("in_flight", "forwards whose result is out; above 0 it is not quiescent"),
        ("exempt", "its admission covers its whole generation"),
        ("outcome", "what became of the turn, for the chosen one: retracted, or why not; null for the others"),
    ),
    f"""
WITH turns AS (
  SELECT {PART}, stop, blocker, victim, outcome FROM retractions WHERE round = at_round
)
SELECT {PART}, stop, blocker, nullif(choice, -1) AS choice, request, submission, tier, releasable_blocks, tokens,
  in_flight, exempt, CASE WHEN request = victim THEN outcome END AS outcome
FROM (FROM victims WHERE round = at_round) JOIN turns USING ({PART}, stop)
ORDER BY {PART}, stop, exempt, choice, submission""",
    "SELECT stop, choice, request, releasable_blocks, outcome FROM victim_ranking(101)",
    ("at_round",),
)

RELATIONS = (RETRACTION_CYCLES, VICTIM_RANKING)
