"""Relations that tell decisions in words: the stops of a round, and the life of a request."""

from __future__ import annotations

from .definition import ENDS, PART, SUBMISSION, Relation

_SAID = (
    ("phases", "''", "'phase ' || name || ': ' || budget_tokens || ' tokens left, ' || batch_rows || ' rows'"),
    ("candidates", "request", "'comes to ' || request"),
    ("attempts", "request", "'tries ' || kind || ' of ' || request || ': needs ' || need_pages::VARCHAR || ' pages'"),
    (
        "retractions",
        "blocker",
        "'retraction for ' || blocker || if(victim = '', ': nobody', ': victim ' || victim) || ', ' || outcome",
    ),
    ("grants", "request", "'offers what is free to ' || if(request = '', 'nobody', request) || ': ' || outcome"),
    ("states", "request", "request || ': ' || if(before = '', 'new', before) || ' to ' || after"),
    (
        "matches",
        "request",
        "'match of ' || request || ' on the ' || tier || ', group ' || \"group\" || ': ' || hit_slots || ' slots,'"
        " || ' agreed on ' || common_tokens || ' tokens'",
    ),
    ("chunks", "request", "'chunk of ' || request || ': ' || tokens || ' tokens, bound by ' || bound_by"),
    (
        "reserves",
        "request",
        "'reserve of ' || request || ': decode ' || decode_tokens || ', rest of prompt ' || rest_of_prompt_tokens"
        " || ', headroom ' || headroom_tokens",
    ),
    (
        "refusals",
        "request",
        "'refused ' || request || ': needs ' || need_pages::VARCHAR || ' pages, ' || free_blocks || ' blocks free, '"
        " || reachable_blocks || ' with evictions'",
    ),
    (
        "admissions",
        "request",
        "'admitted ' || request || ': fresh ' || fresh_pages::VARCHAR || ', loaded ' || loaded_pages || ', evicted '"
        " || evicted_pages",
    ),
    (
        "holds",
        "request",
        "request || ' holds the line at ' || computed_tokens || ' of ' || prompt_tokens || ' tokens'",
    ),
    ("blockers", "request", "'first refused for capacity: ' || request"),
    (
        "victims",
        "request",
        "'victim ' || if(exempt, 'exempt', choice::VARCHAR) || ': ' || request || ' (' || tier || '), '"
        " || releasable_blocks || ' blocks, ' || tokens || ' tokens, ' || in_flight || ' in flight'",
    ),
    ("readmissions", "request", "'readmission ' || choice || ': ' || request"),
    (
        "publications",
        "request",
        "'published ' || request || ', group ' || \"group\" || ', pages ' || first_page || ' to ' || end_page || ', '"
        " || new_pages || ' new'",
    ),
    ("reclaims", "request", "'gave up ' || slots || ' slots of ' || request || ', group ' || \"group\""),
    ("evictions", "''", "'evicted page ' || page || ' of group ' || \"group\" || ' from the ' || tier"),
    ("tickets", "''", "'operation ' || op_id || ' (' || kind || ', ' || pages || ' pages): ' || event"),
    (
        "verdicts",
        "request",
        "'verdict on ' || request || ': ' || cause || if(holder = '', '', ' (' || holder || ')')"
        " || if(rule = '', '', ' by ' || rule)",
    ),
    (
        "pool",
        "''",
        "'pool, group ' || \"group\" || ': ' || empty_blocks || ' blocks empty, ' || cached_pages || ' pages cached'",
    ),
)
"""Table, the request that a row is about, and the row in words."""

STOP_LIST = Relation(
    "stop_list",
    "the decisions of a round in the order in which they were taken, in words; those behind a plan count to it",
    (
        ("round", "number of the plan"),
        ("stop", "number of the stop; 0 in front of the first"),
        ("item", "order inside the round"),
        ("decision", "the decided table that has it, with all its numbers"),
        ("request", "the request that it is about; null when it is about none"),
        ("says", "what was decided"),
    ),
    f"""
WITH said AS (
{
        "  UNION ALL".join(
            f'''
  SELECT {PART}, round, stop, item, '{table}' AS decision, nullif({request}, '') AS request, {words} AS says
  FROM {table} WHERE round = at_round
'''
            for table, request, words in _SAID
        )
    }
)
FROM said ORDER BY {PART}, item""",
    "SELECT stop, says FROM stop_list(101)",
    ("at_round",),
)

REQUEST_TIMELINE = Relation(
    "request_timeline",
    "what happened to a request, in order: its submission, admission, restarts, verdicts where they are known, its end",
    (
        ("submission", "number of the request: an id may be used again"),
        ("round", "number of the plan; for what came from outside, of the plan behind it"),
        ("what", "submitted, first_row, restart, verdict, first_token or an event that ends it"),
        ("says", "in words"),
    ),
    f"""
WITH mine AS (
  FROM requests WHERE request = request_id
), told AS (
  SELECT {SUBMISSION}, submit_round AS round, 0 AS turn, 'submitted' AS what,
    prompt_tokens || ' tokens' || if(accepted, '', ', turned away') AS says FROM mine
  UNION ALL SELECT {SUBMISSION}, first_round, 3, 'first_row', 'hit of ' || hit_tokens || ' tokens' FROM mine
    WHERE first_round IS NOT NULL
  UNION ALL SELECT {SUBMISSION}, min(e.round), 1, 'first_token', 'token landed' FROM events e
    SEMI JOIN mine USING ({SUBMISSION}) WHERE applied AND token_count > 0 GROUP BY {SUBMISSION}
  UNION ALL SELECT {SUBMISSION}, restart_round, 3, 'restart',
    'starts over at ' || start_tokens || coalesce(' (' || cause || ')', '')
      || coalesce(', computes ' || recomputed_tokens || ' again', '')
    FROM restarts SEMI JOIN mine USING ({SUBMISSION})
  UNION ALL SELECT {SUBMISSION}, since_round, 4, 'verdict',
    cause || if(holder IS NULL, '', ' (' || holder || ')') || ', ' || rounds || ' rounds'
    FROM verdict_runs SEMI JOIN mine USING ({SUBMISSION})
  UNION ALL SELECT {SUBMISSION}, e.round, 2, kind, generated_tokens || ' tokens generated'
    FROM events e JOIN (SELECT {SUBMISSION}, generated_tokens FROM mine) USING ({SUBMISSION})
    WHERE kind IN {ENDS} AND applied
)
SELECT {SUBMISSION}, round, what, says FROM told ORDER BY {SUBMISSION}, round, turn""",
    "SELECT round, what, says FROM request_timeline('r6')",
    ("request_id",),
)

RELATIONS = (STOP_LIST, REQUEST_TIMELINE)
