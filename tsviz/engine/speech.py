"""What the simulated model says: the output of each request's workload entry, at the pace speculation allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.engine.device import ForwardResult, Planned
from tsviz.engine.faults import seeded_unit
from tsviz.engine.workloads.model import WorkRequest, expand


@dataclass(frozen=True, slots=True)
class SpeechOptions:
    """How speculation fares: each candidate of a window is accepted with `acceptance_rate` if all before it were.

    `corrupt_rate`: share of completing or decoding rows that come out with broken numbers.
    """

    seed: int = 0
    acceptance_rate: float = 0.7
    corrupt_rate: float = 0.0


class Speech:
    """Per request, the output and how much of it the device has said; a pure function of position and seed.

    The position is the device's own, not the host's: with results in flight the host does not know it
    (`executor-rules.md` section 1).
    """

    def __init__(self, options: SpeechOptions, decode_input_tokens: int, *, drafts: bool) -> None:
        self._options = options
        self._width = max(1, decode_input_tokens)
        self._drafts = drafts and self._width > 1
        self._output: dict[str, list[int]] = {}
        self._said: dict[str, int] = {}
        self._blind: set[str] = set()

    def rows(self, planned: Planned) -> ForwardResult:
        """Return what a batch says, row by row."""
        tokens: list[Sequence[int]] = []
        candidates: list[Sequence[int]] = []
        corrupt = set()
        lengths, prefixes, prefills = planned.input_lengths, planned.extend_prefix_lens, planned.prefill_lengths
        num_extends = planned.num_extends
        said = self._said
        for row, request_id in enumerate(planned.request_ids):
            if row < num_extends:
                if prefixes[row] + lengths[row] < prefills[row]:
                    tokens.append(())
                    candidates.append(())
                    continue
                request = planned.requests[row]
                # A retracted request's prompt has grown by what it had said before.
                position = prefills[row] - request.prompt_tokens
                accepted = 1
                output = self._output.get(request_id) or self._expand(request)
            else:
                position = said[request_id]
                accepted = 1 if self._width == 1 else self._accepted(request_id, position)
                output = self._output[request_id]
            said[request_id] = position + accepted
            tokens.append(output[position : position + accepted])
            if self._drafts:
                window = output[position : position + self._width]
                candidates.append(window + window[-1:] * (self._width - len(window)))
            if self._options.corrupt_rate and self._breaks(request_id, position):
                corrupt.add(row)
        return ForwardResult(tokens, candidates if self._drafts else (), frozenset(corrupt))

    def landed(self, request: WorkRequest, *, has_candidates: bool) -> None:
        """The first token came from the peer; without candidates the first window accepts one."""
        self._expand(request)
        self._said[request.request_id] = 1
        if not has_candidates:
            self._blind.add(request.request_id)

    def release(self, request_id: str) -> None:
        """Forget the request."""
        self._output.pop(request_id, None)
        self._said.pop(request_id, None)
        self._blind.discard(request_id)

    def _expand(self, request: WorkRequest) -> list[int]:
        output: list[int] = expand(request.output).tolist()
        self._output[request.request_id] = output
        return output

    def _accepted(self, request_id: str, position: int) -> int:
        if request_id in self._blind:
            self._blind.discard(request_id)
            return 1
        options = self._options
        accepted = 1
        while accepted < self._width:
            if seeded_unit(options.seed, "accept", request_id, position, accepted) >= options.acceptance_rate:
                break
            accepted += 1
        return accepted

    def _breaks(self, request_id: str, position: int) -> bool:
        return seeded_unit(self._options.seed, "corrupt", request_id, position) < self._options.corrupt_rate
