"""What a script says of its rounds: a line each, and a judge for every named finding. Pasted, like `watch`.

A judge takes the rounds as `step` returned them, and its threshold; it returns a sentence or an empty string.
The thresholds and conditions are those of `predicates`.
"""

from __future__ import annotations

from typing import Any


def line(seen: dict[str, Any]) -> str:
    """Return one round as a line."""
    rows = [f"{r[0]}:{r[2]}+{r[3]}/{r[4]}" if r[1] == "prefill" else f"{r[0]}:decode" for r in seen["rows"]]
    took = [f"{a} takes {n} pages of {b}" for (a, b), n in seen["taken"].items()]
    back = [f"{seen['retracted']} retracted"] if seen["retracted"] else []
    counters = (
        f"waiting {seen['waiting_size']:3} prefilling {seen['prefilling_size']:3} decoding {seen['decoding_size']:3}"
    )
    return f"round {seen['round']:4}  {counters} free pages {seen['available_lcm_blocks']:5}  " + ", ".join(
        rows + back + took
    )


def livelock(rounds: list[dict[str, Any]], threshold: int, budget: int) -> str:
    """No highest computed position rises and nobody ends although rows are scheduled."""
    highest: dict[str, int] = {}
    since = 0
    for index, seen in enumerate(rounds):
        moved = bool(seen["ended"])
        for name, kind, begin, count, _ in seen["rows"]:
            reach = highest.get(name, 0) + 1 if kind == "decode" else begin + count
            moved |= reach > highest.get(name, 0)
            highest[name] = max(reach, highest.get(name, 0))
        if moved:
            since = index + 1
    stuck = rounds[since:]
    rows = [row for seen in stuck for row in seen["rows"]]
    prompts = {row[0]: row[4] for row in rows}
    twice = 2 * sum(-(-prompt // budget) for prompt in prompts.values())
    busy = sum(bool(seen["rows"]) for seen in stuck)
    if len(stuck) <= max(threshold, twice) or 4 * busy < len(stuck):
        return ""
    taken: dict[tuple[str, str], int] = {}
    for seen in stuck:
        for pair in seen["taken"]:
            taken[pair] = taken.get(pair, 0) + 1
    thrown = sum(seen["retracted"] for seen in stuck)
    lines = [
        f"LIVE-LOCK: since round {since} nobody gets further: {len(stuck)} rounds, {len(rows)} rows,"
        f" {thrown} retractions."
    ]
    lines += [f"  {name}: computed up to {highest[name]} of {prompt}" for name, prompt in sorted(prompts.items())]
    lines += [f"  {a} took pages of {b} in {n} rounds" for (a, b), n in sorted(taken.items())]
    return "\n".join(lines)


def stall(rounds: list[dict[str, Any]], threshold: int, budget: int) -> str:  # noqa: ARG001 (judges are called alike)
    """Plans stay empty although requests live and nothing is outstanding."""
    count = 0
    for seen in rounds:
        live = seen["waiting_size"] + seen["prefilling_size"] + seen["decoding_size"] > 0
        count = count + 1 if live and not seen["rows"] and not seen["arrived"] else 0
    if count <= threshold:
        return ""
    last = rounds[-1]
    sizes = f"waiting {last['waiting_size']}, prefilling {last['prefilling_size']}, decoding {last['decoding_size']}"
    return (
        f"STALL: the last {count} plans are empty, requests live ({sizes}), {last['available_lcm_blocks']} pages free."
    )


def retraction_storm(rounds: list[dict[str, Any]], threshold: int, budget: int) -> str:  # noqa: ARG001
    """Many retractions within 100 rounds."""
    counts = [seen["retracted"] for seen in rounds]
    for end in range(len(counts)):
        window = sum(counts[max(0, end - 99) : end + 1])
        if window > threshold:
            return f"RETRACTION STORM: {window} retractions in the 100 rounds up to round {rounds[end]['round']}."
    return ""


def head_of_line(rounds: list[dict[str, Any]], threshold: int, budget: int) -> str:  # noqa: ARG001
    """The request that waits first is passed over while others are scheduled and more wait behind it."""
    queue: list[str] = []
    passed: dict[str, int] = {}
    for seen in rounds:
        queue += seen["arrived"]
        gone = {row[0] for row in seen["rows"]} | set(seen["ended"])
        queue = [name for name in queue if name not in gone]
        if queue and seen["rows"] and seen["waiting_size"] > 1:
            passed[queue[0]] = passed.get(queue[0], 0) + 1
            if passed[queue[0]] > threshold:
                return f"HEAD OF LINE: {queue[0]!r} waited first for {passed[queue[0]]} rounds that scheduled others."
    return ""
