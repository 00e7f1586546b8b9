"""Generator: requests that come one by one, independent of one another, and share nothing."""

from __future__ import annotations

from tsviz.engine.workloads.draws import exponential, length_near, stream
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.intake import Intake, first_rows, generator_meta
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.options import SECOND_NS, WorkloadOptions

PARAMETERS = ("requests", "rate", "prompt_tokens", "output_tokens", "spread")


def generate_poisson(options: WorkloadOptions) -> Workload:
    """Return `requests` requests with exponential gaps of mean 1 / `rate` seconds, the first after one gap."""
    arrivals, lengths = (stream(options.seed, "poisson", purpose) for purpose in ("arrivals", "lengths"))
    intake = Intake(options)
    at_s = 0.0
    for row in first_rows(options.requests, options):
        at_s += exponential(arrivals, 1 / options.rate)
        prompt_tokens = length_near(lengths, options.prompt_tokens, options.spread)
        output_tokens = length_near(lengths, options.output_tokens, options.spread)
        place = Place("poisson", f"request {row}")
        intake.generated(place, row, round(at_s * SECOND_NS), intake.fresh_prompt(row, prompt_tokens), output_tokens)
    return intake.workload(generator_meta("poisson", options, PARAMETERS, "everything: lengths, arrivals, tokens"))
