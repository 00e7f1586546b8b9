"""Relations that follow requests: prefill steps, restarts, latencies, cache hits, recomputation."""

from __future__ import annotations

from .definition import ENDS, PART, SUBMISSION, Relation

CARRIED = Relation(
    "carried",
    "a row a request that lived before the first round of a slice, or of what a flight recorder kept: what it did"
    " before is not recorded, and is null in the other relations unless it was new; `operations`, `events`,"
    " `table_changes` and, where decisions are known, `states` have rows of such requests from before that round, which"
    " say where they stood; `transfers` and `tickets` of operations that were out; recorded decisions also `reserves`",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("submit_round", "round of the plan in front of which it was submitted"),
        ("begin_round", "the first round that is recorded"),
        ("last_row_round", "round of its last row before that; null if it held no pages then, as far as is known"),
        ("landed_tokens", "tokens that had landed before that"),
        (
            "state",
            "where it stood: new (it had not run), prefilling (its last row left some to compute), decoding (none) or"
            " retracted; where decisions are not known it is retracted if no row is carried and tokens had landed, and"
            " null where new and retracted cannot be told apart",
        ),
    ),
    f"""
WITH begun AS (
  -- None in a trace from its first round: then nothing else is read.
  SELECT {PART}, min(round) AS begin_round FROM rounds GROUP BY {PART} HAVING min(round) > 1
), there AS (
  SELECT {SUBMISSION}, request, round AS submit_round, begin_round
  FROM submissions JOIN begun USING ({PART}) WHERE accepted AND round < begin_round
), ran AS (
  SELECT {SUBMISSION}, max(round) AS last_row_round,
    arg_max(kind IN ('prefill', 'remote_prefill') AND begin_tokens + input_tokens < prefill_tokens, round) AS chunk
  FROM operations JOIN there USING ({SUBMISSION}) WHERE round < begin_round GROUP BY {SUBMISSION}
), landed AS (
  SELECT {SUBMISSION}, sum(token_count)::BIGINT AS landed_tokens
  FROM events JOIN there USING ({SUBMISSION}) WHERE round < begin_round AND applied GROUP BY {SUBMISSION}
), stood AS (
  SELECT {SUBMISSION}, arg_max(after, (round, item)) AS stood
  FROM states JOIN there USING ({SUBMISSION}) WHERE round < begin_round GROUP BY {SUBMISSION}
)
SELECT {SUBMISSION}, request, submit_round, begin_round, last_row_round, coalesce(landed_tokens, 0) AS landed_tokens,
  CASE WHEN stood IN ('Bootstrapping', 'Submitted') THEN 'new' WHEN stood = 'Retracted' THEN 'retracted'
    WHEN chunk THEN 'prefilling' WHEN last_row_round IS NOT NULL THEN 'decoding'
    WHEN landed_tokens > 0 THEN 'retracted' END AS state
FROM there LEFT JOIN ran USING ({SUBMISSION}) LEFT JOIN landed USING ({SUBMISSION})
LEFT JOIN stood USING ({SUBMISSION})""",
    "SELECT request, submit_round, landed_tokens FROM carried ORDER BY submission",
    says_more=True,
)

PREFILL_STEPS = Relation(
    "prefill_steps",
    "a row a prefill row: which positions it computes, whether it starts over, what it computes again",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("round", "number of the plan"),
        ("row", "position in its batch"),
        ("kind", "prefill or remote_prefill"),
        ("slot", "request-pool slot"),
        ("start_tokens", "first position that it computes: the prefix hit, on the first row of an admission"),
        ("end_tokens", "position behind the last that it computes"),
        ("replay_tokens", "positions in front of start_tokens that are fed again"),
        ("prefill_tokens", "positions to compute before it can decode"),
        ("complete", "the row ends the prefill"),
        ("first", "the request's first prefill row; null where it can have been and is not known (`carried`)"),
        (
            "restart",
            "it starts over after a retraction: the row before was complete or went further, or had another slot"
            " (a retracted chunk that goes on at the same position in the same slot is not seen);"
            " null where that is not known (`carried`)",
        ),
        (
            "recomputed_tokens",
            "positions of this row that had been computed before; replay not counted; null where that is not known"
            " (`carried`)",
        ),
    ),
    f"""
WITH steps AS (
  SELECT {SUBMISSION}, request, round, "row", kind, slot,
    begin_tokens + replay_tokens AS start_tokens, begin_tokens + input_tokens AS end_tokens,
    replay_tokens, prefill_tokens
  FROM operations WHERE kind IN ('prefill', 'remote_prefill') AND submission >= 0
), followed AS (
  SELECT *, lag(end_tokens) OVER w AS last_end, lag(prefill_tokens) OVER w AS last_prefill,
    lag(slot) OVER w AS last_slot
  FROM steps WINDOW w AS (PARTITION BY {SUBMISSION} ORDER BY round)
), known AS (
  SELECT {SUBMISSION}, begin_round, state IS NOT NULL AS ran FROM carried WHERE state IS DISTINCT FROM 'new'
), marked AS (
  SELECT *, last_end >= last_prefill AS after_complete,
    CASE WHEN last_end IS NOT NULL THEN last_end >= last_prefill OR start_tokens < last_end OR slot <> last_slot
      WHEN begin_round IS NULL THEN false WHEN ran THEN true END AS restart
  FROM followed LEFT JOIN known USING ({SUBMISSION})
), reached AS (
  -- A restart behind a complete prefill lost what decoding computed too: all but the newest token.
  SELECT *, max(greatest(last_end, CASE WHEN after_complete THEN prefill_tokens - 1 END))
    OVER (PARTITION BY {SUBMISSION} ORDER BY round ROWS UNBOUNDED PRECEDING) AS highest
  FROM marked
)
SELECT {SUBMISSION}, request, round, "row", kind, slot, start_tokens, end_tokens, replay_tokens, prefill_tokens,
  end_tokens >= prefill_tokens AS complete,
  CASE WHEN last_end IS NOT NULL OR ran THEN false WHEN begin_round IS NULL THEN true END AS first, restart,
  CASE WHEN begin_round IS NULL OR highest >= end_tokens
    THEN greatest(0, least(end_tokens, coalesce(highest, 0)) - start_tokens) END::INTEGER AS recomputed_tokens
FROM reached WHERE begin_round IS NULL OR round >= begin_round""",
    "SELECT request, round, start_tokens, end_tokens FROM prefill_steps WHERE restart ORDER BY round LIMIT 20",
)

RESTARTS = Relation(
    "restarts",
    "a row a retraction that was followed by a new start of the request",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("last_row_round", "round of its last row before; null if that is not recorded"),
        ("retracted_from_round", "first round in which it can have been retracted; null if the trace shows none"),
        ("restart_round", "round in which it starts over"),
        ("cause", "capacity, or event when the runtime asked for it; null if its last row is not recorded"),
        ("start_tokens", "position at which it starts over"),
        ("recomputed_tokens", "positions that its first new row computes again; null where that is not known"),
    ),
    f"""
WITH starts AS (
  SELECT {SUBMISSION}, request, round, start_tokens, recomputed_tokens FROM prefill_steps WHERE restart
), touched AS (
  SELECT {SUBMISSION}, round, lag(round) OVER (PARTITION BY {SUBMISSION} ORDER BY round) AS last_row_round
  FROM operations SEMI JOIN starts USING ({SUBMISSION})
), asked AS (
  SELECT {SUBMISSION}, s.round, max(e.round) AS event_round
  FROM starts s JOIN (FROM events WHERE kind = 'retract') e USING ({SUBMISSION})
  WHERE e.round <= s.round GROUP BY {SUBMISSION}, s.round
), short AS (
  SELECT {PART}, round AS short_round FROM rounds WHERE retracted_requests > 0
), known AS (
  -- The next one behind the last row, which may lie before a slice.
  SELECT k.*, short_round, coalesce(event_round > last_row_round, false) AS by_event
  FROM (
    FROM starts JOIN touched USING ({SUBMISSION}, round) LEFT JOIN asked USING ({SUBMISSION}, round)
  ) k ASOF LEFT JOIN short s
    ON k.trace = s.trace AND k.node = s.node AND k.rank = s.rank AND k.last_row_round < s.short_round
)
SELECT {SUBMISSION}, request, last_row_round,
  CASE WHEN by_event THEN event_round WHEN short_round < round THEN short_round END AS retracted_from_round,
  round AS restart_round,
  CASE WHEN by_event THEN 'event' WHEN last_row_round IS NOT NULL THEN 'capacity' END AS cause,
  start_tokens, recomputed_tokens
FROM known""",
    "SELECT request, count(*) AS restarts FROM restarts GROUP BY trace, node, request ORDER BY 2 DESC, 1 LIMIT 10",
)

REQUESTS = Relation(
    "requests",
    "a row a submitted request: when it came, ran and ended, what it waited for and what it cost; of a request that"
    " had run before a slice, or may have (`carried`), what the rounds before it decide is null",
    (
        ("submission", "number of the request in order of submission"),
        ("request", "request id"),
        ("accepted", "false when the submit call raised"),
        ("submit_round", "round of the plan in front of which it was submitted"),
        ("first_round", "round of its first prefill row; null if it never ran, and of such requests"),
        ("end_round", "round of the plan in front of which it ended; null if it never did"),
        ("ended_by", "finish, abort, failed or succeeded"),
        ("arrival_ns", "when it reached the engine, or the submit call where the trace does not say"),
        ("submitted_ns", "time of the submit call"),
        ("first_scheduled_ns", "time of the plan with its first row"),
        ("first_token_ns", "when its first token landed"),
        ("end_ns", "time of the call that ended it"),
        ("queue_ns", "first_scheduled_ns - arrival_ns"),
        ("ttft_ns", "first_token_ns - arrival_ns"),
        ("tpot_ns", "time a token between the first landing and the last; null with one landing"),
        ("prompt_tokens", "length of the prompt"),
        ("max_new_tokens", "declared budget; 0 is undeclared"),
        ("generated_tokens", "tokens that landed"),
        ("hit_tokens", "prefix hit of its first admission; null of such requests"),
        (
            "retractions",
            "how often it started over, the number of its rows in `restarts`; null of such requests. The screen,"
            " `why` and `findings` count how often it lost its pages: once more, if it has not come back by the end."
            " Those are the rows of `retractions` with outcome 'retracted' and this victim, where decisions are known,"
            " and, on the screen, its events `retract`",
        ),
        ("recomputed_tokens", "positions that prefill rows computed again; null of such requests"),
    ),
    f"""
WITH landed AS (
  SELECT {SUBMISSION}, sum(tokens)::BIGINT AS generated_tokens, min(call_seq) AS first_seq, max(call_seq) AS last_seq,
    arg_min(tokens, call_seq) AS first_tokens
  FROM (
    SELECT {SUBMISSION}, call_seq, token_count AS tokens FROM events WHERE applied
  ) WHERE tokens > 0 GROUP BY {SUBMISSION}
), ended AS (
  SELECT {SUBMISSION}, min(round) AS end_round, arg_min(kind, call_seq) AS ended_by, min(call_seq) AS end_seq
  FROM events WHERE kind IN {ENDS} AND applied GROUP BY {SUBMISSION}
), begun AS (
  SELECT {SUBMISSION}, begin_round FROM carried WHERE state IS DISTINCT FROM 'new'
), ran AS (
  SELECT {SUBMISSION}, min(round) AS first_round, arg_min(start_tokens, round) AS hit_tokens,
    count_if(restart) AS retractions, sum(recomputed_tokens)::BIGINT AS recomputed_tokens
  FROM prefill_steps ANTI JOIN begun USING ({SUBMISSION}) GROUP BY {SUBMISSION}
), told AS (
  SELECT {SUBMISSION}, request, accepted, round AS submit_round, arrival_ns, call_seq, prompt_tokens, max_new_tokens,
    generated_tokens, first_tokens, first_seq, last_seq, end_round, ended_by, end_seq
  FROM submissions LEFT JOIN landed USING ({SUBMISSION}) LEFT JOIN ended USING ({SUBMISSION})
), marks AS (
  -- One join with the calls for all four times: the calls of a long trace are many.
  SELECT {SUBMISSION}, unnest([call_seq, first_seq, last_seq, end_seq]) AS seq,
    unnest(['submitted', 'first', 'last', 'end']) AS mark
  FROM told
), times AS (
  SELECT {SUBMISSION}, max(time_ns) FILTER (mark = 'submitted') AS submitted_ns,
    max(time_ns) FILTER (mark = 'first') AS first_token_ns, max(time_ns) FILTER (mark = 'last') AS last_token_ns,
    max(time_ns) FILTER (mark = 'end') AS end_ns
  FROM marks JOIN calls USING ({PART}, seq) GROUP BY {SUBMISSION}
), plans AS (
  SELECT {PART}, round AS first_round, start_ns AS first_scheduled_ns FROM rounds
)
SELECT {SUBMISSION}, request, accepted, submit_round, first_round, end_round, ended_by,
  coalesce(told.arrival_ns, submitted_ns) AS arrival_ns, submitted_ns, first_scheduled_ns, first_token_ns, end_ns,
  first_scheduled_ns - coalesce(told.arrival_ns, submitted_ns) AS queue_ns,
  first_token_ns - coalesce(told.arrival_ns, submitted_ns) AS ttft_ns,
  (last_token_ns - first_token_ns) / nullif(generated_tokens - first_tokens, 0) AS tpot_ns,
  prompt_tokens, max_new_tokens, coalesce(generated_tokens, 0) AS generated_tokens, hit_tokens,
  CASE WHEN begin_round IS NULL THEN coalesce(retractions, 0) END::BIGINT AS retractions,
  CASE WHEN begin_round IS NULL THEN coalesce(ran.recomputed_tokens, 0) END AS recomputed_tokens
FROM told LEFT JOIN begun USING ({SUBMISSION})
LEFT JOIN times USING ({SUBMISSION}) LEFT JOIN ran USING ({SUBMISSION})
LEFT JOIN plans USING ({PART}, first_round)""",
    "SELECT request, ttft_ns / 1e6 AS ttft_ms, retractions FROM requests ORDER BY ttft_ns DESC NULLS LAST LIMIT 10",
)


def _latency(name: str, column: str, doc: str) -> Relation:
    """A distribution of one column of `requests`, a row a part."""
    return Relation(
        name,
        doc,
        (
            ("requests", "requests that have one"),
            ("mean_ns", "mean"),
            ("p50_ns", "median"),
            ("p90_ns", "90th percentile"),
            ("p99_ns", "99th percentile"),
            ("max_ns", "largest"),
        ),
        f"""
SELECT {PART}, count({column}) AS requests, avg({column}) AS mean_ns, quantile_disc({column}, 0.5) AS p50_ns,
  quantile_disc({column}, 0.9) AS p90_ns, quantile_disc({column}, 0.99) AS p99_ns, max({column}) AS max_ns
FROM requests GROUP BY {PART} ORDER BY {PART}""",
        f"SELECT p50_ns / 1e6 AS p50_ms, p99_ns / 1e6 AS p99_ms FROM {name}",
    )


HIT_RATE = Relation(
    "hit_rate",
    "how much of the prompts was found in the cache at first admission, a row a part",
    (
        ("requests", "requests that were admitted"),
        ("prompt_tokens", "length of their prompts"),
        ("hit_tokens", "positions that their first prefill row did not compute"),
        ("replay_tokens", "positions of these that it fed again all the same"),
        ("hit_rate", "hit_tokens / prompt_tokens"),
        ("saved_rate", "begin_tokens / prompt_tokens: the hits less the replay"),
    ),
    f"""
SELECT {PART}, count(*) AS requests, sum(prompt_tokens)::BIGINT AS prompt_tokens,
  sum(start_tokens)::BIGINT AS hit_tokens, sum(replay_tokens)::BIGINT AS replay_tokens,
  sum(start_tokens) / nullif(sum(prompt_tokens), 0) AS hit_rate,
  sum(start_tokens - replay_tokens) / nullif(sum(prompt_tokens), 0) AS saved_rate
FROM (FROM prefill_steps WHERE first) JOIN submissions USING ({SUBMISSION})
GROUP BY {PART} ORDER BY {PART}""",
    "SELECT trace, round(100 * hit_rate, 1) AS hit_percent FROM hit_rate",
)

RECOMPUTE_TAX = Relation(
    "recompute_tax",
    "what starting over cost: positions that prefill rows computed again, a row a part",
    (
        ("restarts", "prefill rows that start over"),
        ("requests", "requests that started over"),
        ("computed_tokens", "positions that local prefill rows computed"),
        (
            "recomputed_tokens",
            "those that had been computed before; null where what was is not recorded of some (`carried`)",
        ),
        ("replay_tokens", "positions fed again by replay, not counted above"),
        ("tax", "recomputed_tokens / computed_tokens; null where recomputed_tokens is"),
    ),
    f"""
SELECT {PART}, count_if(restart)::BIGINT AS restarts, count(DISTINCT submission) FILTER (restart) AS requests,
  sum(end_tokens - start_tokens)::BIGINT AS computed_tokens,
  CASE WHEN count(*) = count(recomputed_tokens) THEN sum(recomputed_tokens) END::BIGINT AS recomputed_tokens,
  sum(replay_tokens)::BIGINT AS replay_tokens,
  CASE WHEN count(*) = count(recomputed_tokens)
    THEN sum(recomputed_tokens) / nullif(sum(end_tokens - start_tokens), 0) END AS tax
FROM prefill_steps WHERE kind = 'prefill' GROUP BY {PART} ORDER BY {PART}""",
    "SELECT trace, restarts, round(100 * tax, 1) AS percent FROM recompute_tax",
)

RELATIONS = (
    CARRIED,
    PREFILL_STEPS,
    RESTARTS,
    REQUESTS,
    _latency("ttft", "ttft_ns", "time to first token, a row a part: from arrival to the first token that landed"),
    _latency("tpot", "tpot_ns", "time per output token behind the first landing, a row a part"),
    HIT_RATE,
    RECOMPUTE_TAX,
)
