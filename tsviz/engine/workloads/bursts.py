"""Generator: requests that come in bursts with silence between them, and share nothing."""

from __future__ import annotations

from tsviz.engine.workloads.draws import exponential, length_near, stream
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.intake import Intake, first_rows, generator_meta
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions

PARAMETERS = ("requests", "rate", "burst", "prompt_tokens", "output_tokens", "spread")


def generate_bursts(options: WorkloadOptions) -> Workload:
    """Return `requests` requests, `burst` of them at each arrival, with exponential gaps of mean `burst` / `rate`.

    So `rate` stays the mean over all; the first burst comes at time 0, and the last may be smaller.
    """
    arrivals, lengths = (stream(options.seed, "bursts", purpose) for purpose in ("arrivals", "lengths"))
    intake = Intake(options)
    at_s = 0.0
    for row in first_rows(options.requests, options):
        if row > 1 and (row - 1) % options.burst == 0:
            at_s += exponential(arrivals, options.burst / options.rate)
        prompt_tokens = length_near(lengths, options.prompt_tokens, options.spread)
        output_tokens = length_near(lengths, options.output_tokens, options.spread)
        place = Place("bursts", f"request {row}")
        intake.generated(place, row, round(at_s * SECOND_NS), intake.fresh_prompt(row, prompt_tokens), output_tokens)
    return intake.workload(generator_meta("bursts", options, PARAMETERS, "everything: lengths, arrivals, tokens"))
