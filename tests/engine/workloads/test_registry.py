"""Names of workloads and their options."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions, parse_max_new
from tsviz.engine.workloads.registry import GENERATORS, IMPORTERS, load

BURST = "Timestamp,Request tokens,Response tokens\n1,5,6\n"


def test_a_kind_and_a_path_name_a_workload(tmp_path: Path) -> None:
    """What follows the first colon is the path, with whatever colons it has."""
    path = tmp_path / "a:b.csv"
    path.write_text(BURST)
    workload = load(f"burstgpt:{path}")
    assert (len(workload.requests), workload.meta["file"]) == (1, "a:b.csv")


def test_a_generator_takes_its_parameters_behind_its_name() -> None:
    """Values behind the name win over the options and are in the metadata."""
    workload = load("poisson:requests=3,rate=2.5,seed=9", WorkloadOptions(requests=50, output_tokens=7))
    meta = workload.meta
    assert (len(workload.requests), meta["rate"], meta["seed"], meta["output_tokens"]) == (3, 2.5, 9, 7)


@pytest.mark.parametrize("spec", ["", "nothing", "mooncak:/x", "/some/file", "poisson2:rate=1"])
def test_an_unknown_kind_lists_the_known_ones(spec: str) -> None:
    """Every importer and generator is named in the error."""
    with pytest.raises(WorkloadError) as caught:
        load(spec)
    assert all(name in str(caught.value) for name in (*IMPORTERS, *GENERATORS))


@pytest.mark.parametrize(
    ("spec", "field", "part"),
    [
        ("mooncake", "path", "no path"),
        ("mooncake:", "path", "no path"),
        ("poisson:burst=3", "parameter", "one of requests, rate, prompt_tokens, output_tokens, spread, seed"),
        ("poisson:rate", "rate", "key=value"),
        ("poisson:rate=1,rate=2", "rate", "once"),
        ("poisson:rate=x", "rate", "a number"),
        ("poisson:rate=0", "rate", "a number from 1e-09"),
        ("poisson:rate=nan", "rate", "a number from 1e-09"),
        ("poisson:requests=1.5", "requests", "a whole number"),
        ("poisson:requests=0", "requests", "a whole number from 1"),
        ("poisson:,", "parameter", "one of"),
        ("poisson:spread=2", "spread", "0 to 1"),
    ],
)
def test_a_bad_name_says_what_is_wrong(spec: str, field: str, part: str) -> None:
    """The error names the parameter and what was expected."""
    with pytest.raises(WorkloadError) as caught:
        load(spec)
    assert caught.value.field == field
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0},
        {"scale": 1.5},
        {"scale": True},
        {"speed": 0},
        {"speed": float("nan")},
        {"speed": float("inf")},
        {"speed": "4"},
        {"rows": 0},
        {"rows": -1},
        {"max_new": 0},
        {"max_new": "all"},
        {"max_new": 1.0},
        {"seed": -1},
        {"start_s": -1.0},
        {"window_s": 0},
        {"session_gap_s": 1e10},
        {"prompt_tokens": 2**24},
        *(
            {name: 0}
            for name in ("requests", "prompt_tokens", "output_tokens", "burst", "prefixes", "sessions", "turns")
        ),
        *({name: -1} for name in ("prefix_tokens", "tail_tokens", "think_s", "rate")),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(WorkloadError) as caught:
        WorkloadOptions(**options)
    assert caught.value.field == next(iter(options))


def test_options_cannot_change() -> None:
    """Options are frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULTS.scale = 2  # type: ignore[misc]


def test_max_new_is_read_from_text() -> None:
    """The command line's three forms, and an error for anything else."""
    assert [parse_max_new(t) for t in ("declared", "undeclared", "4096")] == ["declared", "undeclared", 4096]
    with pytest.raises(WorkloadError, match="max_new: expected declared, undeclared or a whole number, found 4k"):
        parse_max_new("4k")
