"""The Mooncake importer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsviz.engine.workloads.errors import WorkloadError
from tsviz.engine.workloads.model import Span, Workload, expand
from tsviz.engine.workloads.mooncake import load_mooncake
from tsviz.engine.workloads.options import DEFAULTS, WorkloadOptions

Make = Callable[..., Path]


def load(path: Path, **options: Any) -> Workload:
    return load_mooncake(path, WorkloadOptions(**options))


def test_the_last_id_stands_for_a_partial_block(mooncake_file: Make) -> None:
    """1,030 tokens are blocks of 512, 512 and 6."""
    [request] = load(mooncake_file((0, 1030, 5, [4, 8, 9]))).requests
    assert request.prompt == (Span(4, 0, 512), Span(8, 0, 512), Span(9, 0, 6))
    assert (request.prompt_tokens, request.output_tokens, request.max_new_tokens) == (1030, 5, 5)


def test_equal_leading_ids_give_equal_leading_tokens_and_no_more(mooncake_file: Make) -> None:
    """Two prompts share exactly the tokens of their common leading ids, a partial block its first ones."""
    a, b, c = load(mooncake_file((0, 1536, 1, [0, 1, 2]), (0, 1536, 1, [0, 1, 3]), (0, 700, 1, [0, 1]))).requests
    ta, tb, tc = (expand(r.prompt) for r in (a, b, c))
    assert (ta[:1024] == tb[:1024]).all()
    assert (ta[1024:] != tb[1024:]).mean() > 0.9
    assert (ta[:700] == tc).all()


@pytest.mark.parametrize("scale", [1, 2, 3, 7, 8, 10, 100, 512])
@pytest.mark.parametrize("length", [1, 511, 512, 513, 1030, 5120])
def test_scaled_prompts_have_the_divided_length(mooncake_file: Make, scale: int, length: int) -> None:
    """A prompt of n tokens has max(1, n // scale), also for scales that do not divide a block."""
    ids = list(range(-(-length // 512)))
    [request] = load(mooncake_file((0, length, 9, ids)), scale=scale).requests
    assert request.prompt_tokens == len(expand(request.prompt)) == max(1, length // scale)
    assert request.output_tokens == max(1, 9 // scale)
    assert all(span.length > 0 for span in request.prompt)


def test_a_scale_that_divides_a_block_makes_every_full_block_equally_long(mooncake_file: Make) -> None:
    """At scale 8 a block of 512 is 64 tokens; 1,030 // 8 = 128 leaves nothing of the last 6 tokens."""
    [request] = load(mooncake_file((0, 1030, 16, [4, 8, 9])), scale=8).requests
    assert request.prompt == (Span(4, 0, 64), Span(8, 0, 64))


def test_outputs_are_unlike_one_another(mooncake_file: Make) -> None:
    """Equal prompts have different outputs."""
    a, b = load(mooncake_file((0, 512, 50, [0]), (0, 512, 50, [0]))).requests
    assert a.prompt == b.prompt
    assert {s.source for s in a.output}.isdisjoint({s.source for s in b.output})


def test_arrivals_are_the_timestamps_divided_by_the_speed_in_row_order(mooncake_file: Make) -> None:
    """3,000 ms at speed 4 are 750 ms; equal timestamps keep the order of the rows."""
    requests = load(mooncake_file((0, 1, 1, [0]), (3000, 1, 1, [0]), (3000, 2, 1, [0])), speed=4).requests
    assert [r.arrival_ns for r in requests] == [0, 750_000_000, 750_000_000]
    assert [r.request_id for r in requests] == ["row-0000001", "row-0000002", "row-0000003"]


def test_max_new_is_declared_undeclared_or_a_number(mooncake_file: Make) -> None:
    """The scheduler is told the scaled output length, 0, or the number that is asked for."""
    path = mooncake_file((0, 512, 80, [0]))
    for max_new, told in (("declared", 10), ("undeclared", 0), (300, 300)):
        [request] = load(path, scale=8, max_new=max_new).requests
        assert (request.max_new_tokens, request.output_tokens) == (told, 10)


def test_rows_that_cannot_be_scheduled_are_skipped_and_counted(mooncake_file: Make) -> None:
    """Empty prompts and empty outputs are counted by reason, and ids still tell the row."""
    path = mooncake_file((0, 0, 5, []), (0, 5, 0, [0]), (0, 0, 0, []), (0, 5, 5, [0]))
    workload = load(path)
    assert [r.request_id for r in workload.requests] == ["row-0000004"]
    assert workload.skipped == {"empty prompt": 1, "empty output": 1, "empty prompt and empty output": 1}
    assert workload.meta["input_rows"] == 4


def test_rows_takes_the_first_rows_before_any_is_skipped(mooncake_file: Make) -> None:
    """Of the first two rows one is empty, so one request is left."""
    workload = load(mooncake_file((0, 0, 5, []), (0, 5, 5, [0]), (0, 6, 5, [0])), rows=2)
    assert [r.prompt_tokens for r in workload.requests] == [5]
    assert (workload.meta["rows"], workload.meta["input_rows"]) == (2, 2)


def test_a_window_keeps_its_start_not_its_end_and_counts_the_rest(mooncake_file: Make) -> None:
    """Of 0, 1, 2, 3 s, the window of 2 s from 1 s on has 1 and 2, which become 0 and 1."""
    path = mooncake_file(*((1000 * s, 5, 5, [0]) for s in range(4)))
    workload = load(path, start_s=1, window_s=2)
    assert [r.arrival_ns for r in workload.requests] == [0, 1_000_000_000]
    assert workload.skipped == {"outside the window asked for": 2}


def test_the_metadata_repeats_the_run_and_names_no_path(mooncake_file: Make, tmp_path: Path) -> None:
    """Kind, bare file name, hash, options, licence and inventions are in the metadata; the folder is not."""
    workload = load(mooncake_file((0, 5, 5, [0])), scale=2, speed=4, rows=9, max_new=7, seed=3)
    meta = dict(workload.meta)
    assert (meta["kind"], meta["file"]) == ("mooncake", "trace.jsonl")
    assert (meta["scale"], meta["speed"], meta["rows"], meta["max_new"], meta["seed"]) == (2, 4, 9, 7, 3)
    assert len(str(meta["file_sha256"])) == 64
    assert "Apache-2.0" in str(meta["source"])
    assert "output" in str(meta["invented"])
    assert str(tmp_path) not in repr(meta)


def test_a_folder_is_read_if_it_has_one_trace(mooncake_file: Make, put: Make, tmp_path: Path) -> None:
    """A folder means its only *.jsonl; two of them are an error that names both."""
    mooncake_file((0, 5, 5, [0]))
    put("", "README.md")
    assert len(load_mooncake(tmp_path, DEFAULTS).requests) == 1
    put("", "other.jsonl")
    with pytest.raises(WorkloadError, match=r"expected exactly one .*found 2: other.jsonl, trace.jsonl"):
        load_mooncake(tmp_path, DEFAULTS)


GOOD = (0, 600, 5, [0, 1])


@pytest.mark.parametrize(
    ("row", "field", "expected", "found"),
    [
        ((5, 600, 5, [0]), "hash_ids", "2 ids", "1 ids"),
        ((5, 512, 5, [0, 1]), "hash_ids", "1 ids", "2 ids"),
        ((5, 600, 5, "01"), "hash_ids", "a list", "str"),
        ((5, 600, 5, [0, -1]), "hash_ids[1]", "a whole number", "-1"),
        ((5, 600, 5, [0, True]), "hash_ids[1]", "a whole number", "True"),
        ((5, 600, 5, [0, 2**36]), "hash_ids[1]", "a whole number", str(2**36)),
        ((5, 600, 5, [1, 0]), "hash_ids[0]", "1 after 0", "after nothing"),
        ((5, 600, 5, [0, 0]), "hash_ids[1]", "0 after nothing", "after 0"),
        ((5, -1, 5, []), "input_length", "a whole number", "-1"),
        ((5, 2.5, 5, [0]), "input_length", "a whole number", "2.5"),
        ((5, 2**24, 5, [0]), "input_length", "a whole number from 0 to 16777215", "16777216"),
        ((5, True, 5, [0]), "input_length", "a whole number", "True"),
        ((5, 600, None, [0, 1]), "output_length", "a whole number", "None"),
        ((5, 600, "5", [0, 1]), "output_length", "a whole number", "5"),
        ((-1, 600, 5, [0, 1]), "timestamp", "a time", "-1"),
        ((1e300, 600, 5, [0, 1]), "timestamp", "a time", "1e+300"),
        (("5", 600, 5, [0, 1]), "timestamp", "a time", "5"),
    ],
)
def test_a_bad_row_names_file_line_field_expected_and_found(
    mooncake_file: Make, row: tuple[Any, ...], field: str, expected: str, found: str
) -> None:
    """The error of a row has all five parts."""
    path = mooncake_file(GOOD, row)
    with pytest.raises(WorkloadError) as caught:
        load_mooncake(path, DEFAULTS)
    error = caught.value
    assert (error.file, error.place, error.field) == (str(path), "line 2", field)
    assert expected in error.expected
    assert found in error.found
    assert all(part in str(error) for part in (error.file, error.place, error.field, error.expected, error.found))


def test_time_may_not_run_backwards(mooncake_file: Make) -> None:
    """A timestamp below the row before is an error that says both."""
    with pytest.raises(WorkloadError, match=r"line 2: timestamp: expected at least 3000 ms .*found 2999"):
        load_mooncake(mooncake_file((3000, 5, 5, [0]), (2999, 5, 5, [0])), DEFAULTS)


ROW = '{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [0]}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "content: expected at least one row"),
        (" \n\n", "content: expected at least one row"),
        ("\ufeff", "content: expected at least one row"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1: content: expected UTF-8 text, found byte 89"),
        (ROW.encode() + b"\nab\x00c", "line 2: content: expected UTF-8 text, found byte 00"),
        (ROW + "\n\n" + ROW, "line 2: JSON: expected a JSON object"),
        (ROW[:-10], "line 1: JSON: expected a JSON object"),
        ("[1]", "line 1: JSON: expected a JSON object, found list"),
        (ROW.replace("0,", "NaN,", 1), "line 1: JSON: expected finite numbers, found NaN"),
        (ROW.replace("0,", "-Infinity,", 1), "line 1: JSON: expected finite numbers, found -Infinity"),
        (ROW.replace("0,", "1e999,", 1), "line 1: timestamp: expected a time from 0 to below 2305843009213 (73 years)"),
        (ROW.replace("5,", "9" * 5000 + ",", 1), "line 1: JSON: expected a JSON object"),
        ("[" * 100_000, "line 1: JSON: expected a JSON object"),
        (ROW.replace("timestamp", "time"), "line 1: timestamp: expected the field to be there, found fields time"),
        (ROW.replace("input_length", "timestamp"), "line 1: JSON: expected each field once"),
    ],
)
def test_a_damaged_file_is_an_error_with_its_line(put: Make, content: str | bytes, message: str) -> None:
    """Whatever is in the file, the error is a WorkloadError that says where."""
    with pytest.raises(WorkloadError) as caught:
        load_mooncake(put(content), DEFAULTS)
    assert message in str(caught.value)


def test_line_ends_do_not_matter(put: Make) -> None:
    """CRLF and a missing last line end read as LF does."""
    for text in (f"{ROW}\n{ROW}\n", f"{ROW}\r\n{ROW}\r\n", f"{ROW}\n{ROW}"):
        assert len(load_mooncake(put(text), DEFAULTS).requests) == 2


def test_a_path_that_is_no_file_is_an_error(tmp_path: Path) -> None:
    """A missing file, a folder without a trace, a folder with the trace's name, a null byte: an error each."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "outer" / "inner.jsonl").mkdir(parents=True)
    for path, found in (
        (tmp_path / "missing", "no such file"),
        (tmp_path / "empty", "none in it"),
        (tmp_path / "outer", "a folder"),
        (Path("/dev/null"), "something else"),
        (tmp_path / "a\0b", ""),
    ):
        with pytest.raises(WorkloadError) as caught:
            load_mooncake(path, DEFAULTS)
        assert found in caught.value.found


def test_a_scale_that_leaves_nothing_of_a_block_is_an_error(mooncake_file: Make) -> None:
    """At a scale above 512 blocks would have no token to be told apart by."""
    with pytest.raises(WorkloadError, match="scale: expected at most the block, 512, found 513"):
        load(mooncake_file(GOOD), scale=513)


def test_control_characters_of_a_bad_value_do_not_reach_the_message(put: Make) -> None:
    """An escape sequence in a value is shown escaped, and a long value cut."""
    with pytest.raises(WorkloadError) as caught:
        load_mooncake(put(ROW.replace("5,", '"\\u001b[31m' + "x" * 500 + '",', 1)), DEFAULTS)
    assert "\x1b" not in str(caught.value)
    assert len(caught.value.found) < 120
