"""Worked examples of cache-rules 11 about sliding, state, replayable and landed groups: E6, E7, E11, E18."""

from __future__ import annotations

from types import ModuleType

from tests.conformance.notation import Drive, full, replay, sliding, state


def _span(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def _e6(module: ModuleType) -> Drive:
    """E6's first four plans."""
    drive = Drive(module, [full(4), sliding(5, 2)], page=4, pages=33, budget=8)
    drive.submit("a", _span(1, 14))
    expected = [
        ("a:P[0+8/14]@1", [1, 2], [3, 4, 5, 6], (26, 26, 6)),
        ("a:P[8+6/14]@1", [1, 2, 7, 8], [0, 0, 5, 6, 9, 10, 11, 12], (22, 22, 10)),
        ("a:D[1/14]@1", [1, 2, 7, 8], [0, 0, 0, 0, 0, 10, 11, 12], (25, 22, 7)),
        ("a:D[1/14]@1", [1, 2, 7, 8], [0, 0, 0, 0, 0, 10, 11, 12], (25, 22, 7)),
    ]
    for step, (tokens, row) in enumerate(zip(([], [50], [51], None), expected, strict=True)):
        shown = drive.plan()
        assert (shown.rows, shown.table("a"), shown.table("a", "swa"), drive.counts) == row
        assert (shown.zero == {}) == (step == 3)  # only the fourth is consumed in place
        if tokens is not None:
            drive.result("a", *tokens)
    return drive


def test_e6_sliding(module: ModuleType) -> None:
    """Expired slots become holes, published windows are hit behind their boundary, and only there."""
    drive = _e6(module)
    drive.result("a", 52)
    fifth = drive.plan()
    assert fifth.table("a") == [1, 2, 7, 8, 13]
    assert fifth.table("a", "swa") == [0, 0, 0, 0, 0, 0, 11, 12, 14]
    assert drive.counts == (24, 20, 8)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (32, 22, 0)
    expected = {
        "b": (_span(1, 12), 12, [1, 2, 7, 15], [0, 0, 0, 0, 9, 10, 16, 17], (24, 19, 8)),
        "c": (_span(1, 8), 8, [1, 2, 18], [0, 0, 5, 6, 19, 20], (25, 19, 7)),
        "d": (_span(1, 4), 0, [21], [22, 23], (29, 19, 3)),
    }
    for name, (shared, prefix, row, window, counts) in expected.items():
        drive.submit(name, [*shared, 90, 91])
        shown = drive.plan()
        assert shown.rows.startswith(f"{name}:P[{prefix}+")
        assert (shown.table(name), shown.table(name, "swa"), drive.counts) == (row, window, counts)
        if name == "d":
            assert shown.rows == "d:P[0+4/6]@4"
        drive.abort(name)


def test_e6_promotion(module: ModuleType) -> None:
    """A boundary reached exactly is promoted, and the next prompt that shares it hits there."""
    drive = _e6(module)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (32, 25, 0)
    drive.submit("d", [1, 2, 3, 4, 90, 91])
    first = drive.plan()
    assert (first.rows, first.table("d"), first.table("d", "swa")) == ("d:P[0+4/6]@2", [13], [14, 15])
    drive.result("d")
    second = drive.plan()
    assert (second.rows, second.table("d"), second.table("d", "swa")) == (
        "d:P[4+2/6]@2",
        [1, 16],
        [14, 15, 17, 18],
    )
    assert drive.counts == (26, 20, 6)
    drive.result("d", 60)
    third = drive.plan()
    assert (third.table("d"), third.table("d", "swa")) == ([1, 16], [0, 15, 17, 18])
    drive.finish("d")
    drive.plan()
    assert drive.counts == (32, 23, 0)
    drive.submit("e", [1, 2, 3, 4, 95, 96])
    last = drive.plan()
    assert last.rows.startswith("e:P[4+2/6]")
    assert (last.table("e"), last.table("e", "swa")) == ([1, 19], [14, 15, 20, 21])


def test_e7_state(module: ModuleType) -> None:
    """A state row keeps the last checkpoint and the end; only the prompt's last boundary is reusable."""
    drive = Drive(module, [full(4), state(2)], page=4, pages=41, budget=12)
    drive.submit("a", _span(1, 18), new=8)
    expected = [
        ([0, 0, 0, 0, 0, 8], (32, 32, 8)),
        ([0, 0, 0, 0, 0, 8, 0, 9, 10, 11], (29, 29, 11)),
        ([0] * 8 + [10, 11], (31, 30, 9)),
        ([0] * 9 + [11], (32, 31, 8)),
        ([0] * 9 + [11, 12], (31, 30, 9)),
        ([0] * 10 + [12], (32, 31, 8)),
    ]
    for number, (tokens, (row, counts)) in enumerate(zip(([], [50], [51], [52], [53], [54]), expected, strict=True)):
        shown = drive.plan()
        assert (shown.table("a"), shown.table("a", "st"), drive.counts) == (_span(1, 7), row, counts), number
        if number == 1:
            assert shown.zero["full"] == []
        drive.result("a", *tokens)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (40, 34, 0)
    drive.submit("b", [*_span(1, 12), 90, 91])
    shown = drive.plan()
    assert (shown.rows, shown.table("b"), shown.table("b", "st")) == (
        "b:P[0+12/14]@2",
        [13, 14, 15],
        [0] * 5 + [16],
    )
    assert drive.counts == (36, 30, 4)
    drive.abort("b")
    drive.submit("c", [*_span(1, 16), 90, 91])
    shown = drive.plan()
    assert shown.rows.startswith("c:P[16+2/18]")
    assert (shown.table("c"), shown.table("c", "st")) == ([1, 2, 3, 4, 17], [0] * 7 + [9, 18, 19])
    assert drive.counts == (32, 31, 8)


def test_e11_replayable(module: ModuleType) -> None:
    """A replayable group is neither matched nor published; a hit replays its window into fresh pages."""
    drive = Drive(module, [full(4), replay(6, 2)], page=4, pages=41, budget=16)
    drive.submit("a", _span(1, 13))
    first = drive.plan()
    assert (first.table("a"), first.table("a", "rep"), drive.counts) == (
        _span(1, 4),
        _span(5, 11),
        (29, 29, 11),
    )
    drive.result("a", 50)
    second = drive.plan()
    assert (second.table("a", "rep"), drive.counts) == ([0, 0, 0, 0, 9, 10, 11], (33, 33, 7))
    drive.finish("a")
    drive.plan()
    assert drive.counts == (40, 37, 0)
    drive.submit("b", [*_span(1, 12), *_span(90, 99)])
    hit = drive.plan()
    assert hit.rows == "b:P[6+16/22]@2rp6"
    assert (hit.table("b"), hit.table("b", "rep")) == ([1, 2, 3, 12, 13, 14], [0, 0, 0, *_span(15, 23)])
    assert (hit.zero["rep"], drive.counts) == (_span(15, 23), (25, 25, 15))
    drive.result("b", 7)
    assert drive.plan().table("b", "rep") == [0] * 8 + [20, 21, 22, 23]
    drive.result("b", 8)
    assert drive.plan().table("b", "rep") == [0] * 9 + [21, 22, 23]
    drive.abort("b")
    drive.submit("c", [1, 2, 3, 4, 80, 81])
    last = drive.plan()
    assert last.rows.startswith("c:P[0+6/6]") and last.rows.endswith("rp4")
    assert (last.table("c"), last.table("c", "rep")) == ([1, 24], [25, 26, 27, 28])


def test_e18_decode_role(module: ModuleType) -> None:
    """A landing holds the state's last slot and one of growth; a later landing hits the full group only."""
    drive = Drive(module, [full(4), state(2)], page=4, pages=41, role="D")
    drive.submit("a", _span(1, 14), new=4)
    drive.event("BootstrappedEvent", "a")
    first = drive.plan()
    assert (first.remote_prefill, first.table("a")) == ("a:P[0+14/14]@1", _span(1, 5))
    assert (first.table("a", "st"), drive.counts) == ([0] * 6 + [6, 7], (33, 33, 7))
    drive.event("RemotePrefillDoneEvent", "a", 50)
    second = drive.plan()
    assert (second.table("a"), second.table("a", "st")) == (_span(1, 5), [0] * 6 + [6, 7])
    assert second.zero == {"full": [], "st": []}
    drive.result("a", 51)
    third = drive.plan()
    assert (third.table("a", "st"), drive.counts) == ([0] * 7 + [7], (34, 34, 6))
    drive.result("a", 52)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (40, 36, 0)
    drive.submit("b", [*_span(1, 12), *_span(90, 95)], new=4)
    drive.event("BootstrappedEvent", "b")
    last = drive.plan()
    assert last.remote_prefill.startswith("b:P[12+6/18]")
    assert (last.table("b"), last.table("b", "st")) == ([1, 2, 3, 8, 9, 10], [0] * 8 + [11, 12])
    assert drive.counts == (32, 31, 8)
