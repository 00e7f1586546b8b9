"""From the name of a workload, as given on a command line, to its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tsviz.engine.workloads import agent_sessions, bursts, poisson, shared_prefixes
from tsviz.engine.workloads.azure import load_azure
from tsviz.engine.workloads.burstgpt import load_burstgpt
from tsviz.engine.workloads.errors import Place
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.mooncake import load_mooncake
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions, parse_option
from tsviz.engine.workloads.plain import load_plain
from tsviz.engine.workloads.servegen import load_servegen
from tsviz.engine.workloads.weka import load_weka

IMPORTERS: Mapping[str, Callable[[Path, WorkloadOptions], Workload]] = {
    "mooncake": load_mooncake,
    "azure": load_azure,
    "burstgpt": load_burstgpt,
    "weka": load_weka,
    "servegen": load_servegen,
    "plain": load_plain,
}
"""KIND of `KIND:PATH` to its importer."""

GENERATORS: Mapping[str, tuple[Callable[[WorkloadOptions], Workload], Sequence[str]]] = {
    "poisson": (poisson.generate_poisson, poisson.PARAMETERS),
    "bursts": (bursts.generate_bursts, bursts.PARAMETERS),
    "shared_prefixes": (shared_prefixes.generate_shared_prefixes, shared_prefixes.PARAMETERS),
    "agent_sessions": (agent_sessions.generate_agent_sessions, agent_sessions.PARAMETERS),
}
"""Name of a generator to it and the parameters it reads."""


def load(spec: str, options: WorkloadOptions = DEFAULTS) -> Workload:
    """Return the workload that `KIND:PATH`, or `generator` or `generator:key=value,key=value`, names.

    Keys are the generator's parameters and `seed`; they win over `options`. Raises `WorkloadError` for a name that is
    not known (it lists those that are) and for whatever is wrong inside.
    """
    kind, _, rest = spec.partition(":")
    place = Place(spec, "workload")
    if kind in GENERATORS:
        generate, parameters = GENERATORS[kind]
        return generate(_with_values(rest, (*parameters, "seed"), options, place))
    if kind not in IMPORTERS:
        known = f"{', '.join(f'{name}:PATH' for name in IMPORTERS)}, {', '.join(GENERATORS)}"
        raise place.error("kind", f"one of {known}", kind)
    if not rest:
        raise place.error("path", f"{kind}:PATH", "no path")
    return IMPORTERS[kind](Path(rest), options)


def _with_values(text: str, known: Sequence[str], options: WorkloadOptions, place: Place) -> WorkloadOptions:
    values: dict[str, int | float] = {}
    for pair in text.split(",") if text else []:
        key, equals, value = pair.partition("=")
        if key not in known:
            raise place.error("parameter", f"one of {', '.join(known)}", key)
        if not equals or key in values:
            raise place.error(key, "key=value, once", pair)
        values[key] = parse_option(key, value)
    return replace(options, **values)  # type: ignore[arg-type]
