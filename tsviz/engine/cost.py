"""What things cost on the simulated device."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceCost:
    """The cost model, in nanoseconds. The defaults are the device of the reference figures.

    A forward takes `round_ns` plus `token_ns` for every row of input (re-fed ones included). A round without a batch
    takes `empty_round_ns`. A copy of n pages takes n times the price of its direction and is acknowledged
    `ack_delay_ns` after it ended; 0 everywhere: in the round after. Copies of one direction queue up. A load ends
    before the forward of its plan starts (no overlap by layer). `storage_page_ns` is spent by the control thread.
    """

    round_ns: int = 8_000_000
    token_ns: int = 20_000
    empty_round_ns: int = 8_000_000
    store_page_ns: int = 0
    load_page_ns: int = 0
    ack_delay_ns: int = 0
    storage_page_ns: int = 0
