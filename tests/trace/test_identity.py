"""Identity mode: which pages are equal survives, what stands in them does not."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from tests.trace.lives import PAGE, ROLES, Life, record
from tsviz.adapters.tokenspeed import engine_of, recording_module
from tsviz.replay.reexecution.verify import verify
from tsviz.trace import segments
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.reader import open_bundle
from tsviz.trace.tokens import PageBook, known_pages
from tsviz.trace.writer import BundleWriter

PLANTED = 0x5EC2E700
"""Planted tokens are this and the numbers behind it: no length, page, time or hash comes near them by chance."""


def planted(index: int) -> int:
    """Return a token that can be recognised wherever it stands."""
    return PLANTED + index


def prefix_hashes(tokens: list[int]) -> Iterator[bytes]:
    """Yield the digests of all prefixes of whole pages, by the formula of scheduler-rules.md, section 10.4."""
    digest = b""
    for start in range(0, len(tokens) - PAGE + 1, PAGE):
        page = struct.pack(f"<{PAGE}i", *tokens[start : start + PAGE])
        digest = hashlib.sha256(struct.pack("<i", len(digest)) + digest + struct.pack("<i", PAGE) + page).digest()
        yield digest


def needles(life: Life) -> list[bytes]:
    """Return what must not be found: tokens as numbers and as text, hashes as bytes and as text."""
    found = []
    for index in range(8):
        found += [struct.pack("<i", planted(index)), str(planted(index)).encode()]
    for tokens in (*life.ended, *life.live.values()):
        for digest in prefix_hashes(tokens):
            found += [digest, digest.hex().encode()]
    return found


def bytes_of(bundle: Path) -> bytes:
    """Return the bytes of every file of a bundle."""
    return b"\0".join(path.read_bytes() for path in sorted(bundle.rglob("*")) if path.is_file())


@pytest.mark.parametrize("role", ROLES)
def test_no_token_and_no_hash_survives_in_any_byte(
    real: ModuleType, tmp_path: Path, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With identity tokens no planted token, tail or content hash stands anywhere in the uncompressed bytes."""
    plain = ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    monkeypatch.setattr(segments, "_OPTIONS", plain)

    def storage(config: Any) -> None:
        config.num_host_pages, config.enable_l3_storage, config.enable_kv_cache_events = 40, True, False

    for seed in range(300, 306):
        for tokens in ("full", "identity"):
            path = tmp_path / f"{tokens}{seed}"
            life = record(real, path, seed, role=role, tokens=tokens, compacted=False, token=planted, tune=storage)
            everything = bytes_of(path)
            found = [needle for needle in needles(life) if needle in everything]
            assert bool(found) == (tokens == "full"), f"{tokens} {seed}: {found[:3]}"


@pytest.mark.parametrize("role", ROLES)
def test_no_token_survives_compaction(real: ModuleType, tmp_path: Path, role: str) -> None:
    """No column of a compacted identity bundle holds a planted token or a hash, and no JSON file does."""
    for seed in range(310, 314):
        life = record(real, tmp_path / str(seed), seed, role=role, tokens="identity", token=planted)
        part = open_bundle(tmp_path / str(seed)).parts[0]
        text = json.dumps([table.to_pylist() for table in part.tables().values()], default=str)  # type: ignore[union-attr]
        text += "".join(path.read_text() for path in (tmp_path / str(seed)).rglob("*.json"))
        assert [n for n in needles(life) if n.decode("latin-1") in text] == []
        assert part.table("rounds")["digest_content"].null_count == part.rows("rounds")


@pytest.fixture
def scheduler(real: ModuleType, tmp_path: Path) -> Iterator[Callable[..., tuple[ModuleType, Any, Callable[[], Path]]]]:
    """Build a recorded scheduler with identity tokens; the third value closes the bundle and returns its path."""

    def build(**fields: Any) -> tuple[Any, Any, Callable[[], Path]]:
        path = tmp_path / "bundle"
        writer = BundleWriter(path, meta={}, tokens="identity")
        config = real.SchedulerConfig()
        config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size = PAGE, 64, 4
        config.num_device_pages = 65
        config.cache_groups = [real.CacheGroupConfig("full", PAGE, 64)]
        config.cache_groups[0].transfer_policy = real.CacheTransferPolicy.FullSuffix
        for name, value in fields.items():
            setattr(config, name, value)
        config.cache_groups[0].transfer_policy = real.CacheTransferPolicy.FullSuffix
        module = recording_module(
            real,
            lambda c: writer.recorder(
                node="N", rank=0, config=describe_config(c), engine=engine_of(real), event_reader=event_reader(real),
                now_ns=lambda: 0, clock="virtual", rule_set="0.1.24",
            ),
        )  # fmt: skip

        def close() -> Path:
            writer.close()
            return path

        return module, module.Scheduler(config), close

    yield build


def submit(module: Any, scheduler: Any, name: str, tokens: list[int]) -> None:
    """Submit one request."""
    spec = module.RequestSpec()
    spec.request_id, spec.tokens = name, tokens
    scheduler.submit_requests([spec])


def event(module: Any, scheduler: Any, *events: Any) -> None:
    """Advance by events."""
    made = module.ExecutionEvent()
    for one in events:
        made.add_event(one)
    scheduler.advance(made)


def result(module: Any, name: str, tokens: list[int]) -> Any:
    """Return a result."""
    made = module.ForwardEvent.ExtendResult()
    made.request_id, made.tokens = name, tokens
    return made


def named(module: Any, kind: str, name: str) -> Any:
    """Return a Finish, Abort or Retract."""
    made = getattr(module.ForwardEvent, kind)()
    made.request_id = name
    return made


def begins(bundle: Path, request: str) -> list[int | None]:
    """Return the begin of every row of a request."""
    rows = open_bundle(bundle).parts[0].table("operations").to_pylist()
    return [row["begin_tokens"] for row in rows if row["request"] == request]


def test_a_prompt_that_repeats_an_answer_matches_when_it_is_made_again(real: ModuleType, scheduler: Any) -> None:
    """Prompt 6 and answer 7 fill three pages; a prompt that repeats all 13 hits those three pages, also re-executed."""
    module, made, close = scheduler()
    prompt, answer = [planted(i) for i in range(6)], [planted(20 + i) for i in range(7)]
    submit(module, made, "a", prompt)
    for token in answer:
        made.next_execution_plan()
        event(module, made, result(module, "a", [token]))
    event(module, made, named(module, "Finish", "a"))
    submit(module, made, "b", [*prompt, *answer, planted(40)])
    made.next_execution_plan()
    bundle = close()
    assert begins(bundle, "b") == [12]
    assert verify(open_bundle(bundle).parts[0], real).complete


def test_a_finish_that_raises_does_not_lose_count_of_the_answer(real: ModuleType, scheduler: Any) -> None:
    """A Finish of an incomplete prefill raises; the answer that follows is still known page by page."""
    module, made, close = scheduler(max_scheduled_tokens=4)
    prompt, answer = [planted(i) for i in range(6)], [planted(20 + i) for i in range(7)]
    submit(module, made, "a", prompt)
    made.next_execution_plan()
    with pytest.raises(RuntimeError, match="FinishEvent"):
        event(module, made, named(module, "Finish", "a"))
    event(module, made, result(module, "a", []))
    for token in answer:
        made.next_execution_plan()
        event(module, made, result(module, "a", [token]))
    event(module, made, named(module, "Finish", "a"))
    submit(module, made, "b", [*prompt, *answer, planted(40)])
    made.next_execution_plan()
    bundle = close()
    assert begins(bundle, "b") == [12]
    assert verify(open_bundle(bundle).parts[0], real).complete
    applied = open_bundle(bundle).parts[0].table("events")["applied"].to_pylist()
    assert applied == [False] + [True] * 9


def test_a_bootstrap_token_that_is_ignored_is_no_token_of_the_request(real: ModuleType, scheduler: Any) -> None:
    """Only the first RemotePrefillDone lands: three of them and 6 results make 7 tokens behind a prompt of 6."""
    module, made, close = scheduler(role=real.SchedulerConfig.Role.D)
    prompt = [planted(i) for i in range(6)]
    submit(module, made, "a", prompt)
    event(module, made, module.PD.BootstrappedEvent("a"))
    made.next_execution_plan()
    event(module, made, *(module.PD.RemotePrefillDoneEvent("a", planted(20 + i)) for i in range(2)))
    event(module, made, module.PD.RemotePrefillDoneEvent("a", planted(30)))
    for index in range(6):
        made.next_execution_plan()
        event(module, made, result(module, "a", [planted(21 + index)]))
    assert made.request_token_size("a") == 13
    event(module, made, named(module, "Finish", "a"))
    submit(module, made, "b", [*prompt, *(planted(20 + i) for i in range(7)), planted(50)])
    event(module, made, module.PD.BootstrappedEvent("b"))
    made.next_execution_plan()
    event(module, made, module.PD.RemotePrefillDoneEvent("b", planted(51)))
    made.next_execution_plan()
    bundle = close()
    part = open_bundle(bundle).parts[0]
    events = part.table("events").to_pylist()
    counts = [v["token_count"] for v in events if v["kind"] == "remote_prefill_done"]
    assert counts == [1, 0, 0, 1]
    assert begins(bundle, "b")[0] == 12
    assert verify(part, real).complete


def test_keys_that_are_registered_before_their_request_are_hit_when_made_again(
    real: ModuleType, scheduler: Any
) -> None:
    """Keys of a prompt registered ahead of it load its two pages from storage, also re-executed without a hash."""
    module, made, close = scheduler(num_host_pages=20, enable_l3_storage=True)
    prompt = [planted(i) for i in range(10)]
    hashes = made.prefix_hashes_for_tokens(prompt)
    assert len(hashes) == 2
    made.register_storage_keys(*made.expand_prefix_keys([*hashes, "00" * 32, "not a hash"]))
    made.next_execution_plan()
    submit(module, made, "a", prompt)
    plan = made.next_execution_plan()
    assert [list(op.prefetch_from_storage[0]) for op in plan.cache] == [[1, 1]]
    bundle = close()
    part = open_bundle(bundle).parts[0]
    keys = part.table("storage_keys").to_pylist()
    assert [(row["key"], row["content_hash"]) for row in keys] == [(0, None), (1, None), (2, None), (3, None)]
    assert {row["key"]: row["pages"] for row in part.table("key_prefixes").to_pylist()} == {0: [0], 1: [0, 1]}
    assert verify(part, real).complete


@pytest.mark.parametrize("tokens", [[-3, -9], [2**31 - 1, -(2**31)]])
def test_odd_tokens_are_followed_like_any(real: ModuleType, scheduler: Any, tokens: list[int]) -> None:
    """Negative and extreme tokens in prompts and results re-execute on invented ones, also as decode inputs of a P."""
    module, made, close = scheduler(role=real.SchedulerConfig.Role.P)
    submit(module, made, "a", [tokens[i % 2] for i in range(9)])
    event(module, made, module.PD.BootstrappedEvent("a"))
    made.next_execution_plan()
    event(module, made, result(module, "a", [tokens[0]]))
    plan = made.next_execution_plan()
    assert plan.remote_decode.decode_input_ids == [tokens[0]]
    assert verify(open_bundle(close()).parts[0], real).complete


def test_tables_of_tokens_are_empty(real: ModuleType, tmp_path: Path) -> None:
    """An identity bundle has no prefix page, no KV event, no tail, no results and no candidates."""
    record(real, tmp_path / "b", 311, role="D", tokens="identity")
    part = open_bundle(tmp_path / "b").parts[0]
    assert part.rows("prefix_pages") == part.rows("kv_events") == 0
    for table, column in (("submissions", "tail"), ("events", "tokens"), ("events", "candidates"),
                          ("storage_keys", "content_hash"), ("transfers", "content_hash"),
                          ("operations", "decode_input_token")):  # fmt: skip
        values: pa.ChunkedArray = part.table(table)[column]
        assert values.null_count == len(values)


def test_a_book_that_is_full_forgets_the_page_that_was_seen_longest_ago() -> None:
    """Of two known pages the one that was used again stays; the other is new when it comes behind a third."""
    book = PageBook(1, most_pages=2)
    seen = [book.prompt(array("i", [token])).pages[0] for token in (7, 8, 7, 9, 7, 8)]
    assert seen == [0, 1, 0, 2, 0, 3]
    assert book.content(3) == array("i", [8]).tobytes()
    with pytest.raises(KeyError):
        book.content(1)


def test_a_recorder_knows_several_times_what_caches_can_hold() -> None:
    """A pool of 2,000,000 pages of two blocks each asks for 16,000,000 pages; a small one for 2**20."""
    assert known_pages(100) == 1 << 20
    assert known_pages(2 * 2_000_000) == 16_000_000


@pytest.mark.parametrize("tokens", ["full", "identity"])
def test_a_trace_whose_book_forgot_pages_re_executes(
    real: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: str
) -> None:
    """With a book of four times the pages of the scheduler, and no more, every round of four lifetimes is equal."""
    monkeypatch.setattr("tsviz.trace.tokens.KNOWN_PAGES", 0)
    beyond = 0
    for seed in range(40, 44):
        count = itertools.count()
        record(
            real, tmp_path / str(seed), seed, tokens=tokens, steps=500, tune=without_storage,
            token=lambda index, count=count: index if next(count) % 4 else next(count),
        )  # fmt: skip
        part = open_bundle(tmp_path / str(seed)).parts[0]
        assert verify(part, real).complete
        config = part.config
        blocks = max(group["cache_blocks_per_lcm_block"] for group in config["cache_groups"])
        known = 4 * blocks * (config["num_device_pages"] + config["num_host_pages"])
        beyond += max(max(pages, default=-1) for pages in part.table("submissions")["pages"].to_pylist()) + 1 > known
    assert beyond > 0


def without_storage(config: Any) -> None:
    """Have no storage tier: what is stored there is never forgotten."""
    config.enable_l3_storage = False
