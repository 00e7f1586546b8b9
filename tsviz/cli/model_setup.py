"""What `tsviz record --model` needs before it writes anything: the model, its draft, pools that hold what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tsviz.engine.configs import Role
from tsviz.engine.intake import bound_gate
from tsviz.engine.port import SchedulerPort
from tsviz.engine.summary import RefusalCause
from tsviz.engine.workloads.model import Span, Workload, WorkRequest, given_tokens

from .exit_codes import CliError, ExitCode
from .run_options import RunPlan

if TYPE_CHECKING:
    from tsviz.executor.models import LoadedModel
    from tsviz.executor.store import PageStore

_OPTIONS = {
    "model": "--model", "draft": "--draft", "chunk": "--chunk", "memory budget": "--memory",
    "pool": "--pages, --host-pages, --memory",
}  # fmt: skip
"""Where an error begins with what is wrong, how that is given here."""
_DEFAULT_MIB = 256
_WORKSPACE_BYTES = 1 << 20


class ModelSetup:
    """Loads the model and sizes the pools when it is made, and opens its store.

    `namespace` is what its pages are of: two runs with the same one may use each other's.
    """

    def __init__(self, options: Mapping[str, Any], plan: RunPlan, module: Any, *, pages_given: bool) -> None:
        """Raises CliError: torch or the model is missing or bad, the pool is too small, the scheduler refuses."""
        try:
            from tsviz.executor.models import load_model, use_threads
        except ImportError:
            raise CliError(
                ExitCode.USAGE, "--model needs torch, which is not installed", "pip install 'tsviz[executor]'"
            ) from None
        from tsviz.executor.arena import NoMemory
        from tsviz.executor.identity import page_namespace
        from tsviz.executor.memory import check_memory
        from tsviz.executor.shape import BadModel

        use_threads(options["threads"])
        self.options, self.plan, self.module = options, plan, module
        self.node: str = options["node"] or "F"
        device = "cuda" if options["streams"] == "cuda" else "cpu"
        try:
            if device == "cuda":
                from tsviz.executor.cuda import require_gpu

                with _of("--streams"):
                    require_gpu()
            with _of("--model"):
                self.loaded: LoadedModel = load_model(
                    options["model"], seed=plan.workload.seed, dtype=options["dtype"], fast=options["mode"] == "fast",
                    device=device,
                )  # fmt: skip
            with _of("--draft"):
                drafts = self._load_draft(device)
            self.draft = None if drafts is None else drafts.model
            self.draft_weights = "" if drafts is None else drafts.weights
            self.sized = self._size(pages_given=pages_given)
            check_memory(self.sized, device, self.most_tokens)
            self.namespace = page_namespace(
                self.loaded.model, self.loaded.weights, self.sized, draft=self.draft, draft_weights=self.draft_weights
            )
            self.store = self._open_store()
        except (BadModel, NoMemory, ValueError) as error:
            raise CliError(ExitCode.USAGE, _by_option(str(error))) from error
        except MemoryError as error:
            pages = f"{plan.scheduler.num_device_pages:,} device and {plan.scheduler.num_host_pages:,} host pages"
            raise CliError(ExitCode.USAGE, f"there is no memory for {pages}") from error

    def prompts(self, texts: Sequence[str], max_tokens: int) -> Workload:
        """Return the prompts as requests that come at once. Raises CliError for a model without a tokenizer."""
        if self.loaded.tokenizer is None:
            raise CliError(ExitCode.USAGE, f"--prompt: model {self.options['model']!r} has no tokenizer")
        says = (Span(0, 0, max_tokens),)
        requests = tuple(
            WorkRequest(f"prompt{i}", (given_tokens(tokens),), says, max_tokens, arrival_ns=0)
            for i, tokens in enumerate(map(self.loaded.tokenizer.encode, texts))
        )
        return Workload(requests, {"kind": "prompts", "prompts": len(texts)})

    def check_fit(self, workload: Workload) -> None:
        """Raise CliError where the pool is too small for every single request of a workload."""
        scheduler = self.sized.scheduler
        port = SchedulerPort(self.module, scheduler.build(self.module))
        width = max(1, scheduler.decode_input_tokens)
        gate = bound_gate(port, prefill_only=scheduler.role is Role.P, width=width)
        refusals = [gate(request) for request in workload.requests]
        beyond = [r for r in refusals if r is not None and r.cause is RefusalCause.BEYOND_BOUND]
        if None in refusals or not beyond:
            return
        least = min(beyond, key=lambda r: r.need_tokens)
        raise CliError(
            ExitCode.USAGE,
            f"pool: {scheduler.num_device_pages - 1} LCM blocks hold requests of up to {least.bound_tokens} tokens, and"
            f" the shortest of the workload needs {least.need_tokens}",
            "more --pages or --memory, or a smaller workload (--scale)",
        )

    def _load_draft(self, device: str) -> LoadedModel | None:
        from tsviz.executor.drafting import check_draft
        from tsviz.executor.models import load_draft

        options, model = self.options, self.loaded.model
        if options["draft"] is None:
            return None
        draft = load_draft(
            options["draft"], model, seed=self.plan.workload.seed, dtype=options["dtype"],
            fast=options["mode"] == "fast", device=device,
        )  # fmt: skip
        check_draft(model.shape, draft.model.shape, self.plan.scheduler.decode_input_tokens)
        return draft

    def _open_store(self) -> PageStore | None:
        """Return the store of this model's pages, where there is to be one. Raises CliError where none can be."""
        from tsviz.executor.store import PageStore

        if (folder := self.options["store"]) is None:
            return None
        store = PageStore(folder, self.namespace, self.sized.layout.signature)
        try:
            store.check()
        except OSError as error:
            raise CliError(
                ExitCode.USAGE, f"--store {folder}: expected a folder that files can be written to and linked in:"
                f" {error.strerror or error}",
            ) from error  # fmt: skip
        return store

    def _size(self, *, pages_given: bool) -> Any:
        from tsviz.executor.sizing import PoolOptions, parents_for_budget, size_pool, with_role

        s, shape = self.plan.scheduler, self.loaded.model.shape
        element_bytes = self.loaded.model.weights.embed.element_size()
        draft = None if self.draft is None else self.draft.shape
        pool = PoolOptions(
            s.prefix_granularity, s.max_scheduled_tokens, s.max_batch_size, s.decode_input_tokens,
            s.overlap_schedule_depth, s.mixed, s.storage, s.prefix_cache,
        )  # fmt: skip
        parents = s.num_device_pages - 1
        mib = self.options["memory_mib"]
        if mib is not None or not pages_given:
            budget = (mib or _DEFAULT_MIB) << 20
            parents = parents_for_budget(shape, pool, budget, _WORKSPACE_BYTES, element_bytes, draft)
            if mib is None:
                parents = min(parents, s.num_device_pages - 1)
        host = max(0, s.num_host_pages - 1)
        sized = size_pool(shape, pool, parents=parents, host_parents=host, element_bytes=element_bytes, draft=draft)
        if self.node != "F":
            sized = with_role(sized, Role(self.node))
        port = SchedulerPort(self.module, sized.scheduler.build(self.module))
        self.most_tokens = port.max_single_request_tokens()
        return sized


@contextmanager
def _of(option: str) -> Iterator[None]:
    """Name the option whose value is wrong, where the error does not."""
    from tsviz.executor.shape import BadModel

    try:
        yield
    except BadModel as error:
        words = _by_option(str(error))
        raise BadModel(words if words.startswith("--") else f"{option}: {words}") from error


def _by_option(words: str) -> str:
    what, colon, rest = words.partition(":")
    return _OPTIONS.get(what, what) + colon + rest
