"""Generator: requests whose prompts start with one of a few leading parts (system prompts), some far more popular."""

from __future__ import annotations

from itertools import accumulate

from tsviz.engine.workloads.draws import exponential, length_near, pick, stream
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.intake import Intake, first_rows, generator_meta
from tsviz.engine.workloads.model import Span, Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions
from tsviz.engine.workloads.sources import Use, source

PARAMETERS = ("requests", "rate", "prefixes", "prefix_tokens", "prompt_tokens", "output_tokens", "spread")

_INVENTED = "everything: lengths, arrivals, tokens, and which requests share their leading part"


def generate_shared_prefixes(options: WorkloadOptions) -> Workload:
    """Return Poisson arrivals whose prompt is leading part k (weight 1 / k) of `prefix_tokens`, then fresh tokens."""
    streams = (stream(options.seed, "shared_prefixes", purpose) for purpose in ("arrivals", "lengths", "prefixes"))
    arrivals, lengths, choices = streams
    cumulated = list(accumulate(1 / rank for rank in range(1, options.prefixes + 1)))
    prefix_tokens = options.scaled(options.prefix_tokens) if options.prefix_tokens else 0
    intake = Intake(options)
    at_s = 0.0
    for row in first_rows(options.requests, options):
        at_s += exponential(arrivals, 1 / options.rate)
        chosen = pick(choices, cumulated)
        prefix = (Span(source(Use.BLOCK, chosen), 0, prefix_tokens),) if prefix_tokens else ()
        fresh = intake.fresh_prompt(row, length_near(lengths, options.prompt_tokens, options.spread))
        output_tokens = length_near(lengths, options.output_tokens, options.spread)
        place = Place("shared_prefixes", f"request {row}")
        intake.generated(place, row, round(at_s * SECOND_NS), prefix + fresh, output_tokens)
    return intake.workload(generator_meta("shared_prefixes", options, PARAMETERS, _INVENTED))
