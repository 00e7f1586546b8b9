"""Relations that follow rounds: the budget, retractions, head-of-line holds."""

from __future__ import annotations

from .definition import PART, Relation

BUDGET_USE = Relation(
    "budget_use",
    "what the forward rows of each round went to; pass the token budget to have its share",
    (
        ("round", "number of the plan"),
        ("start_ns", "when it was asked for"),
        ("chunk_tokens", "positions that prefill rows compute"),
        ("replay_tokens", "positions that prefill rows feed again"),
        ("decode_tokens", "forward rows of decode rows"),
        ("scheduled_tokens", "the three together"),
        ("share", "scheduled_tokens / budget_tokens; without a budget, against the largest round of the part"),
    ),
    f"""
WITH prefills AS (
  SELECT {PART}, round, sum(input_tokens)::BIGINT AS fed, sum(replay_tokens)::BIGINT AS replayed
  FROM operations WHERE kind = 'prefill' GROUP BY {PART}, round
)
SELECT trace, node, rank, round, r.start_ns, coalesce(fed - replayed, 0) AS chunk_tokens,
  coalesce(replayed, 0) AS replay_tokens, r.scheduled_tokens - coalesce(fed, 0) AS decode_tokens, r.scheduled_tokens,
  r.scheduled_tokens / nullif(coalesce(budget_tokens, max(r.scheduled_tokens) OVER (PARTITION BY {PART})), 0) AS share
FROM rounds r LEFT JOIN prefills USING ({PART}, round)
ORDER BY {PART}, round""",
    "SELECT round, chunk_tokens, decode_tokens, share FROM budget_use(budget_tokens := 2048) WHERE share > 0.9",
    ("budget_tokens := NULL",),
)

RETRACTION_ROUNDS = Relation(
    "retraction_rounds",
    "a row a round that retracted requests for capacity",
    (
        ("round", "number of the plan"),
        ("start_ns", "when it was asked for"),
        ("retracted_requests", "how many it retracted"),
        ("waiting_requests", "requests that wait behind it"),
        ("decoding_requests", "requests that decode behind it"),
        ("empty_pages", "LCM parents that hold nothing behind it"),
        ("scheduled_tokens", "forward rows of its batch"),
        ("possible_victims", "requests without a row at this round that start over later, in order of submission"),
    ),
    f"""
WITH gone AS (
  -- A victim has no row in the round that retracts it and is not readmitted in that round.
  SELECT {PART}, unnest(range(last_row_round + 1, restart_round))::INTEGER AS round, submission, request
  FROM restarts WHERE cause = 'capacity'
), victims AS (
  SELECT {PART}, round, list(request ORDER BY submission) AS possible_victims
  FROM gone SEMI JOIN (FROM rounds WHERE retracted_requests > 0) USING ({PART}, round) GROUP BY {PART}, round
)
SELECT {PART}, round, start_ns, retracted_requests, waiting_requests, decoding_requests, empty_pages, scheduled_tokens,
  coalesce(possible_victims, []) AS possible_victims
FROM rounds LEFT JOIN victims USING ({PART}, round)
WHERE retracted_requests > 0 ORDER BY {PART}, round""",
    "SELECT round, retracted_requests, possible_victims FROM retraction_rounds",
)

HOL_HOLDS = Relation(
    "hol_holds",
    "a row a round whose last prefill row is incomplete while other requests wait: head of line holds the rest back",
    (
        ("round", "number of the plan"),
        ("start_ns", "when it was asked for"),
        ("request", "the request whose chunk ended the batch"),
        ("submission", "its number"),
        ("start_tokens", "first position that its chunk computes"),
        ("end_tokens", "position behind the last"),
        ("left_tokens", "positions that its prefill still needs"),
        ("waiting_requests", "requests in Submitted or Retracted behind the plan"),
        ("scheduled_tokens", "forward rows of the batch"),
    ),
    """
SELECT o.trace, o.node, o.rank, o.round, r.start_ns, o.request, o.submission,
  o.begin_tokens + o.replay_tokens AS start_tokens, o.begin_tokens + o.input_tokens AS end_tokens,
  o.prefill_tokens - o.begin_tokens - o.input_tokens AS left_tokens, r.waiting_requests, r.scheduled_tokens
FROM operations o
JOIN rounds r ON o.trace = r.trace AND o.node = r.node AND o.rank = r.rank AND o.round = r.round
  AND o."row" = r.prefill_rows - 1
WHERE o.kind = 'prefill' AND o.begin_tokens + o.input_tokens < o.prefill_tokens AND r.waiting_requests > 0
ORDER BY ALL""",
    "SELECT request, count(*) AS rounds, max(waiting_requests) AS held FROM hol_holds GROUP BY trace, node, request",
)

RELATIONS = (BUDGET_USE, RETRACTION_ROUNDS, HOL_HOLDS)
