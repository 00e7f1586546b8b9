"""The order in which a scenario is shrunk: what makes runs shorter comes first."""

from __future__ import annotations

from .requests import fewer_requests, less_sharing, short_names, simpler_arrivals
from .shrink import Pass
from .sizes import (
    shorter_outputs,
    shorter_prompts,
    simpler_config,
    smaller_scale,
    smaller_sizes,
    smaller_together,
)

PASSES: tuple[Pass, ...] = (
    fewer_requests,
    simpler_arrivals,
    simpler_config,
    less_sharing,
    smaller_scale,
    shorter_outputs,
    smaller_together,
    shorter_prompts,
    smaller_sizes,
    short_names,
)
