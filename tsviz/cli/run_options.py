"""Options of a run, in groups, and the values that they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .exit_codes import CliError, ExitCode
from .params import Finite

if TYPE_CHECKING:
    from tsviz.engine.configs import SchedulerOptions
    from tsviz.engine.link import LinkOptions
    from tsviz.engine.ranks import Perturbation
    from tsviz.engine.simulated import SimulatedOptions
    from tsviz.engine.workloads.options import WorkloadOptions

_MOST = 2**31 - 1
"""The scheduler takes 32-bit numbers; nothing here makes sense beyond."""

_MOST_HELD = 1 << 20
"""Of what a scheduler makes one by one when it is built: request slots, the places of a prefix page."""
_LEAST_HOST_PAGES = 2
"""The null page and one that holds something."""
MOST_RANKS = 1024
"""Every rank is a scheduler and a part of the bundle in this one process: a MiB or more, and a dozen open files."""

F = TypeVar("F", bound=Callable[..., Any])


def _group(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _count(name: str, default: int | None, text: str, least: int = 1, most: int = _MOST) -> Callable[[Any], Any]:
    kind = click.IntRange(least, most)
    return click.option(name, type=kind, default=default, show_default=default is not None, help=text)


def _amount(name: str, default: float, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=Finite(0, _MOST), default=default, show_default=True, help=text)


def _share(name: str, default: float, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=Finite(0, 1), default=default, show_default=True, help=text)


workload_options = _group(
    _count("--scale", 1, "Divide lengths in tokens by this."),
    click.option("--speed", type=float, default=1.0, show_default=True, help="Divide arrival times by this."),
    _count("--rows", None, "Take only the first so many rows of the input."),
    click.option(
        "--max-new", default="declared", show_default=True, metavar="declared|undeclared|N",
        help="The budget that the scheduler is told.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of what is drawn."),
    click.option("--start", "start_s", type=float, help="Take rows from this second of the input on."),
    click.option("--window", "window_s", type=float, help="Take rows of so many seconds of the input."),
    click.option("--share-system", is_flag=True, help="weka: invent a system prompt common to all sessions."),
)  # fmt: skip
"""How the workload is cut and scaled."""

scheduler_options = _group(
    click.option(
        "--groups", default="full:16", show_default=True, metavar="KIND:TOKENS[:...],...",
        help="Cache groups: full:16, sliding:16:w=64[:replayable], state:16; k=BLOCKS a page, shards=N, id=NAME.",
    ),
    _count("--prefix-page", 16, "Tokens of a prefix page (prefix_granularity).", most=_MOST_HELD),
    _count("--chunk", 2048, "Token budget of a round (max_scheduled_tokens)."),
    _count("--batch", 64, "Rows of a batch (max_batch_size).", most=_MOST_HELD),
    _count("--pages", 1025, "Device pages, the null page included.", 2),
    _count("--host-pages", 0, "Host pages, the null page included; 0 is no host tier.", 0),
    click.option("--mixed/--no-mixed", default=False, help="Prefill and decode rows in one batch."),
    _count("--width", 1, "Tokens of a decode step (decode_input_tokens).", 0),
    click.option("--overlap", type=click.IntRange(0, 1), default=0, show_default=True, help="Results in flight."),
    click.option("--no-prefix-cache", is_flag=True, help="Ordinary requests match nothing."),
    _count("--replay-tokens", 0, "Prompt tail that is recomputed after a hit.", 0),
    click.option("--kv-events", is_flag=True, help="Drain KV events every round."),
    click.option("--storage", is_flag=True, help="A storage tier behind the host tier."),
)  # fmt: skip
"""How the scheduler is configured."""

device_options = _group(
    _amount("--round-ms", 8.0, "Cost of a round."),
    _amount("--token-us", 20.0, "Cost of a forward row."),
    _amount("--page-us", 0.0, "Cost of a copied page."),
    _amount("--ack-ms", 0.0, "Delay of acknowledgements."),
    _share("--lost-acks", 0.0, "Share of acknowledgements that never come."),
    click.option("--lose-ack", type=click.IntRange(min=0), multiple=True, metavar="OP", help="Lose this operation's."),
    _share("--failed-loads", 0.0, "Share of loads that fail."),
    _share("--acceptance", 0.7, "Of a candidate (width > 1)."),
    _share("--stored", 0.0, "Share of prefixes in storage at the start."),
    _share("--vanish", 0.0, "Share of stored pages that is gone when fetched."),
)
"""What the simulated device costs and does wrong."""

node_options = _group(
    click.option("--pd", is_flag=True, help="A prefill node and a decode node instead of one that does both."),
    _count(
        "--ranks", 1,
        f"Mirrored schedulers that get the same calls, up to {MOST_RANKS:,}; each takes a MiB of memory or more,"
        " a dozen open files, and the time of a run.",
        most=MOST_RANKS,
    ),
    click.option(
        "--perturb", metavar="RANK:KIND[:PLAN]",
        help="Make one rank differ, once it made PLAN plans: page_fewer, late_event or missing_key.",
    ),
    _share("--transfer-failures", 0.0, "Share of the transfers from P to D that fail."),
    click.option("--fail-transfer", multiple=True, metavar="REQUEST", help="Fail the transfer of this request."),
    _count("--abort-ms", None, "Every tenth client gives up so long after its request arrived."),
)  # fmt: skip
"""How many schedulers, and how they are joined."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The options of one run as the engine takes them; `given` is what the trace's metadata keeps."""

    workload: WorkloadOptions
    scheduler: SchedulerOptions
    device: SimulatedOptions
    pd: bool
    ranks: int
    perturbation: Perturbation | None
    link: LinkOptions
    abort_ns: int | None
    max_rounds: int | None
    given: Mapping[str, Any]

    @staticmethod
    def from_options(options: dict[str, Any], max_rounds: int | None) -> RunPlan:
        """Build the plan. Raises CliError for groups that make no sense, WorkloadError for workload options."""
        from tsviz.engine.configs import GroupSpecError, SchedulerOptions, parse_groups
        from tsviz.engine.cost import DeviceCost
        from tsviz.engine.faults import AckFaults
        from tsviz.engine.link import LinkOptions
        from tsviz.engine.simulated import SimulatedOptions
        from tsviz.engine.speech import SpeechOptions
        from tsviz.engine.tier import StorageOptions
        from tsviz.engine.workloads.options import WorkloadOptions, parse_max_new

        o, seed = options, options["seed"]
        workload = WorkloadOptions(
            scale=o["scale"], speed=o["speed"], rows=o["rows"], max_new=parse_max_new(o["max_new"]), seed=seed,
            start_s=o["start_s"], window_s=o["window_s"], share_system=o["share_system"],
        )  # fmt: skip
        try:
            groups = parse_groups(o["groups"])
        except GroupSpecError as error:
            raise CliError(ExitCode.USAGE, str(error)) from error
        scheduler = SchedulerOptions(
            groups=groups, prefix_granularity=o["prefix_page"], max_scheduled_tokens=o["chunk"],
            max_batch_size=o["batch"], num_device_pages=o["pages"], num_host_pages=o["host_pages"],
            decode_input_tokens=o["width"], overlap_schedule_depth=o["overlap"], mixed=o["mixed"],
            prefix_cache=not o["no_prefix_cache"], storage=o["storage"], kv_events=o["kv_events"],
            prefix_replay_tokens=o["replay_tokens"],
        )  # fmt: skip
        storage = StorageOptions(seed=seed, present_rate=o["stored"], vanish_rate=o["vanish"])
        page_ns, round_ns = round(o["page_us"] * 1e3), round(o["round_ms"] * 1e6)
        device = SimulatedOptions(
            cost=DeviceCost(
                round_ns=round_ns, token_ns=round(o["token_us"] * 1e3), empty_round_ns=round_ns,
                store_page_ns=page_ns, load_page_ns=page_ns, ack_delay_ns=round(o["ack_ms"] * 1e6),
            ),
            acks=AckFaults(
                seed=seed, lost_rate=o["lost_acks"], lost_ops=frozenset(o["lose_ack"]),
                failed_load_rate=o["failed_loads"],
            ),
            speech=SpeechOptions(seed=seed, acceptance_rate=o["acceptance"]),
            storage=storage if o["storage"] else None,
        )  # fmt: skip
        abort_ns = None if o["abort_ms"] is None else o["abort_ms"] * 1_000_000
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in o.items()}
        link = LinkOptions(
            seed=seed, failed_transfer_rate=o["transfer_failures"], failed_transfers=frozenset(o["fail_transfer"])
        )
        if o["storage"] and o["host_pages"] < _LEAST_HOST_PAGES:
            raise CliError(
                ExitCode.USAGE,
                f"--storage needs --host-pages {_LEAST_HOST_PAGES} or more, since it lies behind the host tier;"
                f" found {o['host_pages']}",
            )  # fmt: skip
        if not o["pd"] and (o["transfer_failures"] or o["fail_transfer"]):
            raise CliError(
                ExitCode.USAGE, "--transfer-failures and --fail-transfer need --pd: only a pair has transfers"
            )
        if o["pd"] and o["ranks"] > 1:
            raise CliError(ExitCode.USAGE, "--pd and --ranks cannot be combined yet")
        return RunPlan(
            workload, scheduler, device, o["pd"], o["ranks"], _perturbation(o["perturb"], o["ranks"]), link, abort_ns,
            max_rounds, given,
        )  # fmt: skip


def _perturbation(text: str | None, ranks: int) -> Perturbation | None:
    from tsviz.engine.ranks import Perturbation, PerturbationKind

    if text is None:
        return None
    if ranks < 2:
        raise CliError(ExitCode.USAGE, "--perturb needs --ranks 2 or more: rank 0 is the one that the others mirror")
    rank, _, rest = text.partition(":")
    kind, _, plan = rest.partition(":")
    kinds = {k.value: k for k in PerturbationKind}
    plan = plan or "0"
    numbers = rank.isascii() and rank.isdigit() and plan.isascii() and plan.isdigit()
    if not numbers or kind not in kinds or not 1 <= int(rank) < ranks:
        expected = f"RANK:KIND[:PLAN] with a rank from 1 to {ranks - 1} and one of {', '.join(kinds)}"
        raise CliError(ExitCode.USAGE, f"--perturb: expected {expected}, found {text!r}")
    return Perturbation(kinds[kind], int(rank), int(plan))
