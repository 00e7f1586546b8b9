"""From the name of a workload, as given on a command line, to its requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.mooncake import load_mooncake
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions

Importer = Callable[[Path, WorkloadOptions], Workload]

IMPORTERS: dict[str, Importer] = {
    "mooncake": load_mooncake,
}
"""KIND of `KIND:PATH` to its importer."""


def load(spec: str, options: WorkloadOptions = DEFAULTS) -> Workload:
    """Return the workload that `KIND:PATH` names.

    Raises `WorkloadError` for a name that is not known (it lists those that are) and for whatever is wrong inside.
    """
    kind, _, rest = spec.partition(":")
    importer = IMPORTERS.get(kind)
    if importer is None:
        raise WorkloadError(spec, "workload", "kind", f"one of {', '.join(IMPORTERS)}", kind)
    if not rest:
        raise WorkloadError(spec, "workload", "path", f"{kind}:PATH", "no path")
    return importer(Path(rest), options)
