"""Recorded calls made again, one after the other: pasted into scripts together with `watch`."""

from __future__ import annotations

from typing import Any

from .watch import Watch, expand


class Calls(Watch):
    """Makes calls from a list; `step` makes those up to and with the next plan."""

    def __init__(self, api: Any, settings: dict[str, Any], calls: list[list[Any]]) -> None:
        """`calls`: ["submit", requests], ["advance", events], ["plan"] or the name of a call and its arguments."""
        super().__init__(api, settings)
        self.calls = list(reversed(calls))

    def step(self) -> dict[str, Any]:
        """Make the calls of one round and return what happened in it."""
        arrived: list[str] = []
        ended: list[str] = []
        while self.calls:
            kind, *arguments = self.calls.pop()
            if kind == "plan":
                break
            if kind == "submit":
                self.submit(arguments[0])
                arrived += [request["id"] for request in arguments[0]]
            elif kind == "advance":
                self.advance([self.event(*event) for event in arguments[0]])
                ended += [event[1] for event in arguments[0] if event[0] in ("Finish", "Abort")]
                for name in ended:
                    self.gone(name)
            else:
                getattr(self.scheduler, kind)(*arguments)
        seen = self.decide(arrived)
        seen["ended"] = ended
        return seen

    def event(self, kind: str, about: Any, value: Any = None, candidates: int = 0) -> Any:
        """Return one event: its kind, the request or operation, and tokens, a reserve or a success."""
        if kind in ("WriteBackDoneEvent", "LoadBackDoneEvent"):
            return self.acknowledged(kind.removesuffix("DoneEvent"), about, bool(value))
        if kind == "RemotePrefillDoneEvent":
            return self.api.PD.RemotePrefillDoneEvent(about, value)
        if hasattr(self.api.PD, kind):
            return getattr(self.api.PD, kind)(about)
        event = self.forward_event(kind, about)
        if kind == "ExtendResult":
            event.tokens, event.spec_candidate_ids = expand(value), [0] * candidates
        elif kind == "UpdateReserveNumTokens":
            event.reserve_num_tokens_in_next_schedule_event = value
        return event
