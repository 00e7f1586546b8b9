"""The relation of who holds no pages behind a plan, since when and why."""

from __future__ import annotations

from .definition import PART, SUBMISSION, Relation

WAITING = Relation(
    "waiting",
    "the requests that hold no pages behind the plan of a round, and why. Who was retracted and has not come back by"
    " the last round is among them only where decisions are known (`parts`): recorded tables do not tell such a request"
    " from one that decodes and gets no row",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        (
            "state",
            "new (no row yet), or retracted (it can have been; it starts over later); null where which of them is not"
            " known: a `carried` request that held no pages, of which nothing had landed and decisions are not known",
        ),
        (
            "since_round",
            "round of its submission, or the first in which it can have been retracted; null if that is not recorded",
        ),
        ("waited_rounds", "plans since then, this one included; null where since_round is"),
        ("next_row_round", "round in which it is scheduled next; null if never"),
        ("prompt_tokens", "length of the prompt"),
        ("cause", "why it had no row in this plan; null where decisions are not known"),
        ("holder", "the request in the way; null when none is, or it is not known"),
        ("cause_since_round", "since when the cause is this one; that of a slice where it may be longer"),
    ),
    f"""
WITH live AS (
  SELECT {SUBMISSION}, request, submit_round, first_round, prompt_tokens
  FROM requests SEMI JOIN (FROM parts WHERE last_round >= at_round) USING ({PART})
  WHERE accepted AND submit_round <= at_round AND (end_round IS NULL OR end_round > at_round)
), steps AS (
  SELECT {SUBMISSION}, min(round) AS next_round FROM prefill_steps SEMI JOIN carried USING ({SUBMISSION})
  GROUP BY {SUBMISSION}
), before AS (
  SELECT {SUBMISSION}, begin_round, state, next_round
  FROM carried LEFT JOIN steps USING ({SUBMISSION}) WHERE state IS DISTINCT FROM 'new'
), told AS (
  SELECT {SUBMISSION}, arg_max(after, (round, item)) AS now,
    -- In front of a slice a state may be told as a change to itself: since when is then not known.
    max(round) FILTER (before <> after) AS told_round
  FROM states WHERE round <= at_round GROUP BY {SUBMISSION}
), away AS (
  SELECT {SUBMISSION}, request, 'new' AS state, submit_round AS since_round,
    at_round - submit_round + 1 AS waited_rounds, first_round AS next_row_round, prompt_tokens
  FROM live ANTI JOIN before USING ({SUBMISSION}) WHERE first_round IS NULL OR first_round > at_round
  UNION ALL
  SELECT {SUBMISSION}, request, before.state, told_round, at_round - told_round + 1, next_round, prompt_tokens
  FROM live JOIN before USING ({SUBMISSION}) LEFT JOIN told USING ({SUBMISSION})
  WHERE (before.state IS NULL OR before.state = 'retracted') AND at_round >= begin_round
    AND (next_round IS NULL OR next_round > at_round)
  UNION ALL
  SELECT trace, node, rank, submission, live.request, 'retracted', retracted_from_round,
    at_round - retracted_from_round + 1, restart_round, prompt_tokens
  FROM live JOIN restarts USING ({SUBMISSION})
  WHERE retracted_from_round <= at_round AND restart_round > at_round
), gone AS (
  SELECT {SUBMISSION}, request, told_round, prompt_tokens
  FROM live JOIN told USING ({SUBMISSION}) ANTI JOIN away USING ({SUBMISSION}) WHERE now = 'Retracted'
), again AS (
  -- When the last row is in front of a slice, `restarts` does not know since when, and so has none of these above.
  SELECT {SUBMISSION}, min(round) AS next_round FROM operations SEMI JOIN gone USING ({SUBMISSION})
  WHERE round > at_round GROUP BY {SUBMISSION}
), waits AS (
  FROM away
  UNION ALL
  SELECT {SUBMISSION}, request, 'retracted', told_round, at_round - told_round + 1, next_round, prompt_tokens
  FROM gone LEFT JOIN again USING ({SUBMISSION})
), causes AS (
  SELECT {SUBMISSION}, cause, holder, since_round AS cause_since_round FROM verdict_runs
  WHERE since_round <= at_round AND until_round >= at_round
)
SELECT {SUBMISSION}, request, state, since_round, waited_rounds, next_row_round, prompt_tokens,
  cause, holder, cause_since_round
FROM waits LEFT JOIN causes USING ({SUBMISSION}) ORDER BY {SUBMISSION}""",
    "FROM waiting(3)",
    ("at_round",),
)

RELATIONS = (WAITING,)
