"""Profiles: what a random lifetime leans towards, so that rare features are met often enough.

A profile only shifts probabilities. Every one of them can still draw any of its legal group sets, roles
and events; ``general`` leans towards nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

FULL, SLIDING, STATE, REPLAY = "full", "sliding", "state", "replay"
ANY_GROUPS: tuple[tuple[str, ...], ...] = (
    (FULL,),
    (FULL, FULL),
    (FULL, SLIDING),
    (FULL, STATE),
    (FULL, REPLAY),
    (FULL, SLIDING, STATE),
    (FULL, SLIDING, REPLAY),
    (FULL, SLIDING, SLIDING),
    (FULL, STATE, STATE),
    (SLIDING,),
    (STATE,),
    (REPLAY,),
    (SLIDING, STATE),
    (SLIDING, REPLAY),
    (FULL, FULL, SLIDING, STATE),
)
SHORTENING = tuple(kinds for kinds in ANY_GROUPS if FULL in kinds and (SLIDING in kinds or STATE in kinds))
REPLAYING = tuple(kinds for kinds in ANY_GROUPS if REPLAY in kinds and FULL in kinds)


@dataclass(frozen=True, slots=True)
class Profile:
    """Probabilities and ranges of one kind of lifetime; ``weight`` is its share among all."""

    name: str
    weight: int
    roles: tuple[str, ...] = ("Fused", "Fused", "Fused", "P", "D")
    groups: tuple[tuple[str, ...], ...] = ANY_GROUPS
    pages: tuple[int, ...] = (1, 2, 3, 4, 4, 6, 8)
    widths: tuple[int, ...] = (1, 1, 1, 2, 3, 4, 0)
    mixed: float = 0.4
    overlap: float = 0.4
    host: float = 0.5
    host_roomy: float = 0.5
    storage: float = 0.3
    events: float = 0.3
    no_prefix_cache: float = 0.15
    replay_tokens: float = 0.2
    tight_budget: float = 0.5
    pool_factor: tuple[float, float] = (0.7, 5.0)
    slots: tuple[int, ...] = (1, 2, 3, 4, 4, 6, 8)
    bound_pages: tuple[int, int] = (4, 24)
    bound_tokens: tuple[int, int] | None = None
    undeclared: float = 0.5
    long_budget: float = 0.0
    rounds: tuple[int, int] = (15, 60)
    arrivals: float = 0.5
    share: float = 0.6
    late: float = 0.3
    acknowledge: float = 0.6
    load_failure: float = 0.1
    finish: float = 0.08
    abort: float = 0.02
    retract: float = 0.02
    peer_failure: float = 0.05
    clear: float = 0.03
    drain: float = 0.3
    odd: float = 0.05
    overlong: float = 0.0
    register: float = 0.3


PROFILES: tuple[Profile, ...] = (
    Profile("general", 30),
    Profile("calm", 6, odd=0.0, abort=0.0, retract=0.0, clear=0.0, late=0.0, acknowledge=1.0),
    Profile(
        "pressure",
        16,
        roles=("Fused",),
        host=0.7,
        storage=0.1,
        pool_factor=(0.7, 1.2),
        undeclared=0.95,
        finish=0.02,
        late=0.05,
        acknowledge=0.85,
        rounds=(30, 80),
        events=0.15,
        abort=0.01,
        retract=0.005,
    ),
    Profile(
        "redirect",
        12,
        roles=("Fused", "Fused", "D"),
        mixed=0.8,
        host=0.4,
        storage=0.0,
        pool_factor=(0.7, 1.1),
        undeclared=1.0,
        finish=0.02,
        late=0.02,
        acknowledge=0.95,
        rounds=(30, 80),
        arrivals=0.8,
        share=0.2,
        events=0.1,
    ),
    Profile(
        "escalate",
        17,
        roles=("Fused", "Fused", "D"),
        groups=((FULL,), (FULL,), (FULL, SLIDING), (FULL, STATE)),
        pages=(512, 1024, 2048, 4096),
        widths=(256, 512, 1024, 2048),
        host=0.5,
        storage=0.0,
        events=0.1,
        overlap=0.1,
        tight_budget=0.1,
        pool_factor=(0.8, 1.4),
        slots=(2, 3, 4),
        bound_tokens=(9000, 18000),
        undeclared=0.3,
        long_budget=1.0,
        rounds=(30, 55),
        late=0.02,
        acknowledge=0.95,
        finish=0.01,
        odd=0.01,
    ),
    Profile(
        "gates",
        8,
        roles=("Fused", "Fused", "D"),
        host=1.0,
        pool_factor=(0.7, 1.1),
        undeclared=1.0,
        acknowledge=0.15,
        late=0.02,
        finish=0.03,
        rounds=(30, 70),
        storage=0.1,
        events=0.1,
    ),
    Profile(
        "storage",
        18,
        groups=((FULL,), (FULL, FULL), (FULL, SLIDING), (FULL, STATE), *ANY_GROUPS),
        host=1.0,
        storage=1.0,
        host_roomy=0.2,
        share=0.9,
        register=0.85,
        load_failure=0.3,
        roles=("Fused", "Fused", "P", "D"),
        no_prefix_cache=0.0,
        events=0.15,
        pool_factor=(1.0, 3.0),
    ),
    Profile(
        "storage under pressure",
        8,
        groups=((FULL, SLIDING), (FULL, STATE), (SLIDING,), (FULL, SLIDING, SLIDING)),
        host=1.0,
        storage=1.0,
        host_roomy=0.6,
        share=0.9,
        register=0.85,
        load_failure=0.05,
        roles=("Fused", "Fused", "P"),
        no_prefix_cache=0.0,
        events=0.0,
        pool_factor=(0.7, 1.3),
        finish=0.2,
        clear=0.0,
        rounds=(40, 80),
    ),
    Profile(
        "promotion",
        8,
        groups=SHORTENING,
        share=0.95,
        roles=("Fused", "Fused", "P"),
        no_prefix_cache=0.0,
        finish=0.2,
        pool_factor=(1.5, 4.0),
        undeclared=0.6,
        storage=0.1,
    ),
    Profile("replay", 8, groups=REPLAYING, share=0.95, no_prefix_cache=0.0, finish=0.2, pool_factor=(1.2, 4.0)),
    Profile("destination", 10, roles=("D",), late=0.1, peer_failure=0.06, finish=0.05),
    Profile("source", 8, roles=("P",), peer_failure=0.1),
    Profile(
        "events",
        8,
        events=1.0,
        drain=0.6,
        groups=((FULL,), (FULL, FULL), (FULL, SLIDING), (FULL, STATE)),
        pool_factor=(0.9, 2.0),
        finish=0.15,
        storage=0.15,
    ),
    Profile(
        "reload",
        10,
        host=1.0,
        host_roomy=0.9,
        storage=0.0,
        share=0.9,
        clear=0.2,
        finish=0.2,
        acknowledge=0.9,
        roles=("Fused", "Fused", "P"),
        no_prefix_cache=0.0,
        arrivals=0.4,
    ),
    Profile("overlong", 2, overlong=0.15, roles=("Fused", "Fused", "D"), undeclared=0.8),
)
