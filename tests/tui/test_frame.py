"""The order of requests, moving in it, and the thread that fetches."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.tui.fakes import HEAD, FakeView, by_formula
from tsviz.replay.recorded.snapshot import RequestLine
from tsviz.replay.stops.story import NotKnown
from tsviz.tui.fetch import Failure, Fetcher
from tsviz.tui.frame import LAST, ORDERS, Ask, Frame, make_listing


def request(submission: int, state: str = "decoding", **facts: int) -> RequestLine:
    """Return a request of which only what a test names matters."""
    plain = {"computed_tokens": 0, "prompt_tokens": 0, "generated_tokens": 0, "max_new_tokens": 0, "held_pages": 0,
             "age_rounds": 0, "retractions": 0}  # fmt: skip
    return RequestLine(f"r{submission}", submission, state, scheduled=False, **(plain | facts))


def order_of(requests: tuple[RequestLine, ...], filter_: str = "", order: str = "state") -> list[int]:
    """Return the submissions in the order in which they are listed."""
    listing = make_listing(requests, filter_, order)
    return [requests[i].submission for i in listing.entries if i >= 0]


FOUR = (
    request(1, "waiting", age_rounds=9),
    request(2, "decoding", held_pages=5, age_rounds=7),
    request(3, "prefilling", held_pages=8, age_rounds=5, retractions=2),
    request(10, "decoding", held_pages=5, age_rounds=3),
)


@pytest.mark.parametrize(
    ("order", "submissions"),
    [
        ("state", [3, 2, 10, 1]),
        ("arrival", [1, 2, 3, 10]),
        ("age", [1, 2, 3, 10]),
        ("pages", [3, 2, 10, 1]),
        ("retractions", [3, 1, 2, 10]),
        ("id", [1, 10, 2, 3]),
    ],
)
def test_requests_are_ordered_as_the_order_says(order: str, submissions: list[int]) -> None:
    """By state: prefilling, decoding, waiting; ties by submission; by id as text, so r10 stands before r2."""
    assert order_of(FOUR, order=order) == submissions


def test_every_order_was_tried() -> None:
    """A new order gets its line above."""
    assert set(ORDERS) == {"state", "arrival", "age", "pages", "retractions", "id"}


@pytest.mark.parametrize(
    ("words", "submissions"), [("r1", [10, 1]), ("decod", [2, 10]), ("R1 dec", [10]), ("zz", []), ("  ", [3, 2, 10, 1])]
)
def test_a_filter_wants_every_word_in_the_id_or_at_the_start_of_the_state(words: str, submissions: list[int]) -> None:
    """`R1 dec` are decoding requests with r1 in their id, whatever the case."""
    assert order_of(FOUR, words) == submissions


def test_headings_count_their_requests_and_are_skipped_by_the_cursor() -> None:
    """Lines: prefilling (1), r3, decoding (2), r2, r10, waiting (1), r1; two below r3 is r10, and so on to the end."""
    listing = make_listing(FOUR, "", "state")
    assert listing.headings == (("prefilling", 1), ("decoding", 2), ("waiting", 1))
    assert [entry < 0 for entry in listing.entries] == [True, False, True, False, False, True, False]
    snapshot = replace(by_formula(HEAD, 1, None), requests=FOUR)
    frame = Frame(snapshot, listing, Ask(1), {}, NotKnown("not_recorded", ""))
    assert [found.submission for s in (1, 2, 3, 9, -1) if (found := frame.neighbour(3, s))] == [2, 10, 1, 1, 3]
    assert frame.neighbour(None, 1) == FOUR[2]
    assert frame.neighbour(99, -1) == FOUR[0]


class Inbox:
    """Collects what is delivered, and lets a test wait for it."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self._came = threading.Condition()

    def put(self, result: object) -> None:
        """Take a result."""
        with self._came:
            self.results.append(result)
            self._came.notify_all()

    def wait_for(self, number: int) -> list[object]:
        """Wait for so many results."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.results) >= number, timeout=20)
            return list(self.results)


def at_rest(fetcher: Fetcher) -> None:
    """Wait until the fetcher is idle."""
    pause = threading.Event()
    for _ in range(4000):
        if fetcher.idle:
            return
        pause.wait(0.005)
    raise AssertionError("the fetching thread did not come to rest")


def test_the_newest_wish_wins() -> None:
    """While round 5 is being read, 6, 7 and 8 are wished; 6 and 7 are never read before 8."""
    view, inbox = FakeView(), Inbox()
    view.gate = threading.Event()
    fetcher = Fetcher(view, inbox.put)
    fetcher.start()
    fetcher.ask(Ask(5, 0))
    while not view.calls:
        threading.Event().wait(0.002)
    for round_ in (6, 7, 8):
        assert fetcher.ask(Ask(round_, 0)) is None
    view.gate.set()
    frames = [r for r in inbox.wait_for(2) if isinstance(r, Frame)]
    assert [frame.snapshot.round for frame in frames] == [5, 8]
    assert view.calls[:2] == [(5, 0), (8, 0)]
    at_rest(fetcher)
    fetcher.close()


def test_neighbours_are_ready_before_they_are_asked_for() -> None:
    """After round 5 has come, 6 and 4 are read unasked, and asking for either answers at once."""
    view, inbox = FakeView(), Inbox()
    fetcher = Fetcher(view, inbox.put)
    fetcher.start()
    fetcher.ask(Ask(5, 0))
    inbox.wait_for(1)
    at_rest(fetcher)
    assert view.calls == [(5, 0), (6, 0), (4, 0)]
    frame = fetcher.ask(Ask(6, 0))
    assert frame is not None
    assert frame.snapshot.round == 6
    at_rest(fetcher)
    assert view.calls[3:] == [(7, 0)]
    assert len(inbox.results) == 1
    fetcher.close()


def test_the_ends_have_one_neighbour() -> None:
    """Nothing is read before the first round or behind the last."""
    view, inbox = FakeView(), Inbox()
    fetcher = Fetcher(view, inbox.put)
    fetcher.start()
    fetcher.ask(Ask(1, 0))
    inbox.wait_for(1)
    at_rest(fetcher)
    fetcher.ask(Ask(LAST, 0))
    inbox.wait_for(2)
    at_rest(fetcher)
    assert view.calls == [(1, 0), (2, 0), (300, 0), (299, 0)]
    fetcher.close()


def test_what_a_view_raises_is_delivered_in_words() -> None:
    """A broken round is an answer like any other, and the thread lives on."""
    view, inbox = FakeView(), Inbox()
    view.broken[9] = ValueError("segment 3: crc 0x12, expected 0x34")
    fetcher = Fetcher(view, inbox.put)
    fetcher.start()
    fetcher.ask(Ask(9, 0))
    assert inbox.wait_for(1) == [Failure(Ask(9, 0), "ValueError: segment 3: crc 0x12, expected 0x34")]
    fetcher.ask(Ask(10, 0))
    assert isinstance(inbox.wait_for(2)[1], Frame)
    fetcher.close()


def test_big_snapshots_are_not_hoarded() -> None:
    """However many requests a snapshot has, cached ones hold at most 400,000 lines together, or one snapshot."""
    view, inbox = FakeView(), Inbox()
    many = tuple(request(i) for i in range(150_000))
    view.snapshot = lambda r, s=None: replace(by_formula(HEAD, r, s), requests=many)  # type: ignore[method-assign]
    fetcher = Fetcher(view, inbox.put)
    for round_ in range(1, 7):
        fetcher._frame(Ask(round_, 0))
    assert sum(len(s.requests) for s in fetcher._snapshots.values()) == 300_000
    assert fetcher.ask(Ask(1, 0)) is None
