"""The recorded tables of a bundle, schema 1.3 (architecture.md, section 5, *Recorded*).

`round` counts plans from 1. A call carries the round of the plan that it precedes, so the plan of round r is a
function of the calls with `round <= r`; the plan request itself is the last call of its round. Results of round r
therefore usually carry round r + 1. Calls behind the last plan carry the round of a plan that was not asked for.

`submission` counts submitted requests from 0, in the order of submission, and is the identity of a request: an id may
be used again after a request ended. Times are nanoseconds on the part's clock (`clock` in its metadata: virtual or
monotonic). Every table also has `node` and `rank`, constant in a part and added by the reader.
"""

from __future__ import annotations

from .columns import Table, binary, by_name, f64, flag, i32, i64, ints, string, u64, word

SCHEMA_MAJOR = 1
SCHEMA_MINOR = 3

_ROUND = i32("round", "number of the plan, from 1")
_SUBMISSION = i32("submission", "number of the request in order of submission, from 0; -1 if it was never submitted")
_REQUEST = word("request", "request id, as submitted")

CALLS = Table(
    "calls",
    "every state-changing call on the scheduler, in order",
    (
        i64("seq", "position of the call in the log, from 0"),
        i32("round", "round of the plan that this call precedes; for a plan request its own round"),
        word(
            "kind",
            "submit, advance, plan, register_storage_keys, unregister_storage_keys, clear_cache, clear_l1_cache,"
            " drain_kv_events",
        ),
        i64("time_ns", "when the call was made"),
        i64("duration_ns", "how long the scheduler took, measured on the monotonic clock"),
        i32("items", "specs, events or keys that were passed (the longest of the lists); KV events that were drained"),
        word("outcome", "ok, or the type of the exception that the call raised"),
        string("error", "message of that exception", nullable=True),
        flag("result", "what clear_cache and clear_l1_cache returned", nullable=True),
    ),
    key="seq",
)

SUBMISSIONS = Table(
    "submissions",
    "a row a submitted request; the prompt by prefix page",
    (
        i64("call_seq", "the submit call"),
        _ROUND,
        _SUBMISSION,
        _REQUEST,
        i32("prompt_tokens", "length of the prompt"),
        i32("max_new_tokens", "declared budget; 0 is undeclared"),
        flag("accepted", "false when the submit call raised"),
        ints("pages", "the full prefix pages of the prompt, as numbers in prefix_pages"),
        ints("tail", "tokens behind the last full page; null unless tokens are recorded in full", nullable=True),
        i64("arrival_ns", "when the request reached the engine", nullable=True),
        string("after", "request whose end it waited for", nullable=True),
        i64("think_ns", "time between that end and the arrival", nullable=True),
    ),
    key="submission",
)

PREFIX_PAGES = Table(
    "prefix_pages",
    "the dictionary of distinct prefix pages; only with tokens recorded in full",
    (
        _ROUND,
        i32("page", "number of the page, from 0"),
        ints("tokens", "its tokens, prefix_granularity of them"),
    ),
    key="page",
)

GROWN_PAGES = Table(
    "grown_pages",
    "a prefix page that filled up with generated tokens; only with identity tokens",
    (
        _ROUND,
        _SUBMISSION,
        i32("index", "which prefix page of the request, from 0"),
        i32("page", "number of the page: equal numbers are equal tokens"),
    ),
)

EVENTS = Table(
    "events",
    "a row an event of an advance call, in the order in which it was applied",
    (
        i64("call_seq", "the advance call"),
        _ROUND,
        i32("item", "position in the call, from 0"),
        word(
            "kind",
            "extend_result, finish, abort, retract, update_reserve, write_back_done, load_back_done, bootstrapped,"
            " failed, succeeded, remote_prefill_done",
        ),
        word("request", "request id; null for acknowledgements", nullable=True),
        _SUBMISSION,
        i64("op_id", "operation that is acknowledged", nullable=True),
        i32(
            "value",
            "reserve tokens, success of a load-back (0/1), or the bootstrap token; of that only 0 or -1 (refused)"
            " unless tokens are recorded in full",
            nullable=True,
        ),
        flag(
            "applied", "false for the event at which the call raised (as far as its exception tells) and those behind"
        ),
        i32("token_count", "tokens of a result; 1 for a bootstrap token that the request took"),
        ints("tokens", "those tokens; null unless tokens are recorded in full", nullable=True),
        i32("candidate_count", "speculative candidates that came along"),
        ints("candidates", "those candidates; null unless tokens are recorded in full", nullable=True),
        i32("cause_round", "round of the row or operation that this answers", nullable=True),
        i64("delay_ns", "time since the plan of that round", nullable=True),
    ),
)

STORAGE_KEYS = Table(
    "storage_keys",
    "a row a key that was registered or unregistered with the storage tier",
    (
        i64("call_seq", "the call"),
        _ROUND,
        i32("item", "position in the call, from 0"),
        i64("group_index", "position of the group in the config"),
        i32("key", "number of the content hash, in order of first sight: equal numbers are equal hashes"),
        string("content_hash", "hash of the prefix up to this page; null with identity tokens", nullable=True),
        i32("page_offset", "which block of the prefix page"),
    ),
)

KEY_PREFIXES = Table(
    "key_prefixes",
    "which prefix the hash of a storage key stands for, once a request has that prefix; only with identity tokens",
    (
        _ROUND,
        i32("key", "number of the content hash"),
        ints("pages", "the prefix as numbers of pages"),
    ),
)

KV_EVENTS = Table(
    "kv_events",
    "a row a drained KV event; only with tokens recorded in full",
    (
        i64("call_seq", "the drain"),
        _ROUND,
        i32("item", "position in the drain, from 0"),
        word("kind", "BlockStored or BlockRemoved"),
        u64("block_hash", "hash of the block"),
        u64("parent_hash", "hash of the block before it", nullable=True),
        ints("tokens", "tokens of a stored block", nullable=True),
        i32("block_tokens", "size of a stored block", nullable=True),
    ),
)

ROUNDS = Table(
    "rounds",
    "a row a plan: its size, the scheduler's counters right behind it, and its digests",
    (
        _ROUND,
        i64("call_seq", "the plan call"),
        i64("start_ns", "when the plan was asked for"),
        i32("prefill_rows", "prefill rows of the batch"),
        i32("decode_rows", "decode rows of the batch"),
        i32("remote_prefill_rows", "rows that a peer prefills"),
        i32("remote_decode_rows", "rows that go out to a peer for decoding"),
        i32("scheduled_tokens", "forward rows of the batch: the sum of its input lengths"),
        i32("bootstrapping_requests", "requests in Bootstrapping"),
        i32("waiting_requests", "requests in Submitted or Retracted"),
        i32(
            "prefilling_requests",
            "requests in Prefilling, RemotePrefilling, PrefillAwaitingResult or PrefillDone",
        ),
        i32("decoding_requests", "requests in Decoding"),
        i32("pd_transfer_requests", "requests whose pages a PD transfer pins"),
        i32(
            "retracted_requests",
            "requests that this plan retracted: the rise of waiting that admissions leave unexplained",
        ),
        i32("empty_pages", "LCM parents that hold nothing"),
        u64(
            "digest_structural",
            "digest plan/1 of rows, slots, lengths, tables, zero lists, operations and counters",
        ),
        u64(
            "digest_content",
            "digest plan/1 of ids, tokens and hashes; null with identity tokens",
            nullable=True,
        ),
    ),
)

OPERATIONS = Table(
    "operations",
    "a row a scheduled row, in batch order; remote rows behind. A slice has the last rows before its first round too,"
    " of who lived then (`carried`)",
    (
        _ROUND,
        i32("row", "position in its batch, from 0"),
        word("kind", "prefill, decode, remote_prefill or remote_decode"),
        _REQUEST,
        _SUBMISSION,
        i32("slot", "request-pool slot, from 1"),
        i32("begin_tokens", "extend_prefix_len of a prefill row; null for a decode row", nullable=True),
        i32("input_tokens", "forward rows"),
        i32("replay_tokens", "re-fed rows among them"),
        i32("prefill_tokens", "the request's prefill size, generated tokens included after a retraction"),
        i32(
            "decode_input_token",
            "decode input id if it is not on the device; null otherwise or unless tokens are full",
            nullable=True,
        ),
    ),
)

TABLE_CHANGES = Table(
    "table_changes",
    "block tables as differences: a run of slots of one row that a plan changed",
    (
        _ROUND,
        word("group", "cache group"),
        _REQUEST,
        _SUBMISSION,
        flag("fresh", "the table starts anew: whatever stood there before is gone"),
        i32("first_slot", "first slot of the run"),
        ints("pages", "page ids of the run; 0 is a hole"),
        i32("length_slots", "length of the table behind the plan"),
    ),
)

ZEROED = Table(
    "zeroed",
    "a row a fresh page, in order of acquisition",
    (_ROUND, word("group", "cache group"), i32("page", "page id")),
)

TRANSFERS = Table(
    "transfers",
    "a row a page that a store or load moves between device and host. A slice has those of operations that are out at"
    " its start too",
    (
        _ROUND,
        i64("op_id", "operation"),
        word("kind", "write_back or load_back"),
        flag(
            "source_pinned",
            "the store pins its sources until it is acknowledged; null for loads",
            nullable=True,
        ),
        i32("group_index", "position of the group in the config"),
        i32("src_page", "page that is read (device for a store, host for a load)"),
        i32("dst_page", "page that is written"),
        string("content_hash", "hash of the prefix; null with identity tokens", nullable=True),
        i32("page_offset", "which block of the prefix page"),
        flag("from_storage", "the host page must first be fetched from the storage tier"),
    ),
)

FORWARDS = Table(
    "forwards",
    "device measurements of a round",
    (
        _ROUND,
        i64("start_ns", "start on the device"),
        i64("end_ns", "end on the device"),
    ),
)

FORWARD_ROWS = Table(
    "forward_rows",
    "what a real device's forward came to, a row a scheduled row that gave tokens",
    (
        _ROUND,
        i32("row", "position in the batch, from 0"),
        _REQUEST,
        _SUBMISSION,
        i32("valid_tokens", "tokens with keys and values before the forward, as the device had it"),
        i32("fed_tokens", "forward rows"),
        i32("accepted_tokens", "tokens that it gave"),
        f64("top2_margin", "smallest distance between the two largest logits of its window"),
        flag("broken", "a logit was not a number"),
    ),
    since=(1, 2),
)

DEVICE_OPS = Table(
    "device_ops",
    "a row an operation of a real device, in the order of submission; its completion is the event that others wait for",
    (
        _ROUND,
        i64("op", "number of the operation, from 0"),
        word(
            "stream",
            "default, exec, write, load, peer, host for what the control thread does itself, backup for files",
        ),
        word(
            "kind",
            "store_ordered, store_pinned, zero, load, prologue, layer, epilogue, result, commit, fetch, backup, land,"
            " receive, send",
        ),
        i64("op_id", "the scheduler's operation, of stores and loads", nullable=True),
        i32("layer", "the layer, of one that touches one", nullable=True),
        i64("moved_bytes", "bytes that it copies, clears or reads"),
        ints("waits", "numbers of the operations whose events it waits for"),
        ints(
            "seen",
            "per stream, in the order above, the last operation whose end the host had seen; -1 or missing is none",
        ),
        i64("submit_ns", "when the control thread queued it"),
        i64("start_ns", "when it began"),
        i64("end_ns", "when it ended"),
    ),
    since=(1, 2),
    key="op",
)

DEVICE_RANGES = Table(
    "device_ranges",
    "a row a run of bytes that an operation reads or writes",
    (
        _ROUND,
        i64("op", "the operation"),
        word("space", "device (the arena), host (the host pool), result (a round's result, by number of the round)"),
        flag("writes", "written; false is read"),
        i64("begin_byte", "first byte"),
        i64("end_byte", "byte behind the last one"),
    ),
    since=(1, 2),
    key="op",
)

PAGE_CRCS = Table(
    "page_crcs",
    "a row a layer of a block as a device's operation found it or left it, and what else is to be compared with it;"
    " only where page CRCs are recorded (`record --model --page-crcs`), and not with identity tokens",
    (
        _ROUND,
        i64("op", "the operation"),
        word(
            "space",
            "where the bytes are: device, host (the host pool), storage (the file of a page), wire (what a peer said of"
            " its page), plan (a block table when its forward was queued), upload (as the forward took it), scratch (a"
            " state behind so many tokens of a decode's window), slot (what a request-pool slot holds for a new owner"
            " that is not its own)",
        ),
        flag("writes", "as the operation left them; false is as it found them"),
        word("group", "cache group; empty of a slot"),
        i32("page", "page on the device or on the host; null of a table, of scratch and of a slot", nullable=True),
        i32("layer", "the layer; null is all layers, packed as on the host", nullable=True),
        word("request", "of what travels between nodes, of scratch and of a slot", nullable=True),
        i32(
            "item",
            "position in the manifest of what travels; tokens of the window behind scratch; number of a slot",
            nullable=True,
        ),
        i64("crc32", "CRC-32 of the bytes"),
    ),
    since=(1, 3),
    key="op",
)

KEYFRAMES = Table(
    "keyframes",
    "a row a recorded state of the twin: a slice has one, at its start, from which it is re-executed; what a flight"
    " recorder wrote out also one behind every gap",
    (
        i32("round", "round before whose first call the state was taken"),
        u64("digest_state", "full-state digest state/1"),
        binary("state", "the state (docs/trace-format.md, Keyframes); untrusted like everything in a bundle"),
    ),
    since=(1, 1),
)

GAPS = Table(
    "gaps",
    "what was dropped: while recording, never calls, or in front of the trace, by a flight recorder",
    (
        _ROUND,
        i32("last_round", "last round of the gap"),
        word("table", "table that lost rows"),
        i64("dropped_rows", "how many; -1 where that was not counted, since the plans were not read"),
        string("reason", "why"),
    ),
)

RECORDED = by_name(
    (
        CALLS, SUBMISSIONS, PREFIX_PAGES, GROWN_PAGES, EVENTS, STORAGE_KEYS, KEY_PREFIXES, KV_EVENTS, ROUNDS,
        OPERATIONS, TABLE_CHANGES, ZEROED, TRANSFERS, FORWARDS, FORWARD_ROWS, DEVICE_OPS,
        DEVICE_RANGES, PAGE_CRCS, KEYFRAMES, GAPS,
    )
)  # fmt: skip
