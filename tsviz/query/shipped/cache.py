"""Relations that follow the prefix cache: what an unbounded one would have found."""

from __future__ import annotations

from .definition import PART, SUBMISSION, Relation

POSSIBLE_HITS = Relation(
    "possible_hits",
    "what a cache without bounds would have found at first admission, a row an admitted request",
    (
        ("submission", "number of the request"),
        ("request", "request id"),
        ("first_round", "round of its first row"),
        ("prompt_tokens", "length of its prompt"),
        (
            "possible_tokens",
            "longest prefix of whole prefix pages that stood in the prompt of a request admitted before it; at least"
            " one position is left to compute (answers that a later prompt repeats are not looked at)",
        ),
        ("hit_tokens", "prefix hit that it had"),
    ),
    f"""
WITH admitted AS (
  SELECT {SUBMISSION}, s.request, p.round AS first_round, s.prompt_tokens, s.pages, p.start_tokens AS hit_tokens
  FROM submissions s JOIN (FROM prefill_steps WHERE first) p USING ({SUBMISSION})
), each AS (
  SELECT {SUBMISSION}, first_round, unnest(pages) AS page, generate_subscripts(pages, 1) AS position FROM admitted
), prefixes AS (
  -- Pages at their positions add up to a number that stands for the prefix: a running sum, so that it stays linear.
  SELECT {SUBMISSION}, first_round, position,
    sum(hash(position, page)::HUGEINT) OVER (PARTITION BY {SUBMISSION} ORDER BY position) AS prefix
  FROM each
), known AS (
  SELECT {SUBMISSION}, position, min((first_round, submission)) OVER (PARTITION BY {PART}, position, prefix) AS owner,
    (first_round, submission) AS own
  FROM prefixes
), matched AS (
  SELECT {SUBMISSION}, max(position) AS pages FROM known WHERE owner < own GROUP BY {SUBMISSION}
)
SELECT {SUBMISSION}, request, first_round, prompt_tokens,
  (least(coalesce(matched.pages, 0), (prompt_tokens - 1) // prefix_tokens) * prefix_tokens)::BIGINT AS possible_tokens,
  hit_tokens
FROM admitted LEFT JOIN matched USING ({SUBMISSION}) LEFT JOIN (SELECT {PART}, prefix_tokens FROM parts) USING ({PART})
ORDER BY {SUBMISSION}""",
    "SELECT request, possible_tokens, hit_tokens FROM possible_hits WHERE possible_tokens > hit_tokens",
)

POSSIBLE_HIT_RATE = Relation(
    "possible_hit_rate",
    "how much of the prompts a cache without bounds would have found, beside what was found, a row a part",
    (
        ("requests", "requests that were admitted"),
        ("prompt_tokens", "length of their prompts"),
        ("possible_tokens", "what prompts admitted before would have given them"),
        ("hit_tokens", "what the cache gave them"),
        ("possible_rate", "possible_tokens / prompt_tokens"),
        ("hit_rate", "hit_tokens / prompt_tokens; repeated answers hit too, so that it may be the larger"),
    ),
    f"""
SELECT {PART}, count(*) AS requests, sum(prompt_tokens)::BIGINT AS prompt_tokens,
  sum(possible_tokens)::BIGINT AS possible_tokens, sum(hit_tokens)::BIGINT AS hit_tokens,
  sum(possible_tokens) / nullif(sum(prompt_tokens), 0) AS possible_rate,
  sum(hit_tokens) / nullif(sum(prompt_tokens), 0) AS hit_rate
FROM possible_hits GROUP BY {PART} ORDER BY {PART}""",
    "SELECT trace, round(100 * possible_rate, 1) AS possible, round(100 * hit_rate, 1) AS found FROM possible_hit_rate",
)

RELATIONS = (POSSIBLE_HITS, POSSIBLE_HIT_RATE)
