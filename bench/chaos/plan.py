"""Draw the kind, time, target and duration of each fault from the seed, without side effects."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

REAL = ("real-1", "real-2")
SIMULATED = tuple(f"sim-{number}" for number in range(1, 9))
AGENTS = REAL + SIMULATED
SERVERS = ("web", "dispatch", "actors", "sweep", "redis", "storage")
#: where one part believes another to be; `files` is what browsers and agents call the storage
LINKS = (
    "files",
    "web-redis",
    "dispatch-redis",
    "actors-redis",
    "sweep-redis",
    "web-storage",
    "actors-storage",
    "sweep-storage",
    *(f"{agent}-web" for agent in AGENTS),
)
#: agents whose spool is a disk of its own that can be filled
SMALL_DISKS = ("real-1", "sim-1", "sim-2")
#: how many are under way at the same time, and the pauses between their beginnings
MOST_AT_ONCE = 3
PAUSE_S = (0.3, 2.7)
#: a silence that lasts longer than a lease: what the agent held is given to another attempt
LONG_S = (38.0, 50.0)


@dataclass(frozen=True)
class Fault:
    """One fault. `begin_s` counts from the beginning of the load, but waits for a free place.

    `target`: a part, an agent or a link; `lasts_s` is 0 for what is over at once. `facts` are the
    numbers of its kind.
    """

    number: int
    kind: str
    target: str
    begin_s: float
    lasts_s: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def concerns(self) -> str:
        """Two faults of one part are never under way at the same time."""
        return self.target


#: kind -> how often it comes, in comparison
WEIGHTS = {
    "kill": 14,
    "stop": 12,
    "restart": 12,
    "cut": 14,
    "silence": 10,
    "slow": 10,
    "bench-kill": 8,
    "bench-stop": 5,
    "frames": 8,
    "clock": 6,
    "disk-storage": 3,
    "disk-agent": 4,
}


def draw_faults(seed: int, count: int) -> list[Fault]:
    """The faults of a seed; the first faults of a longer run are those of a shorter one."""
    return [fault for fault, _ in zip(_endless(seed), range(count), strict=False)]


def _endless(seed: int) -> Iterator[Fault]:
    drawing = random.Random(seed)
    begin_s, number = 0.0, 0
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    order: list[str] = []
    while True:
        number += 1
        begin_s += drawing.uniform(*PAUSE_S)
        # each kind once in a while, also in a short run
        if not order:
            order = kinds + drawing.choices(kinds, weights, k=2 * len(kinds))
            drawing.shuffle(order)
        kind = order.pop()
        target, lasts_s, facts = _DRAWN[kind](drawing)
        yield Fault(number, kind, target, begin_s, lasts_s, facts)


Drawn = tuple[str, float, dict[str, Any]]


def _part(drawing: random.Random) -> str:
    """Servers are few and matter more than one agent of many."""
    return drawing.choice(SERVERS if drawing.random() < 0.6 else AGENTS)


def _kill(drawing: random.Random) -> Drawn:
    return _part(drawing), 0.0, {}


def _stop(drawing: random.Random) -> Drawn:
    target = _part(drawing)
    if target in AGENTS and drawing.random() < 0.12:
        return target, drawing.uniform(*LONG_S), {}
    return target, drawing.uniform(0.5, 8), {}


def _cut(drawing: random.Random) -> Drawn:
    return _link(drawing), drawing.uniform(0.5, 10), {}


def _silence(drawing: random.Random) -> Drawn:
    """Afterwards the connections go on, are found broken, or are never heard of again."""
    target, then = _link(drawing), drawing.choice(("goes on", "breaks", "is forgotten"))
    if target.endswith("-web") and drawing.random() < 0.15:
        return target, drawing.uniform(*LONG_S), {"then": then}
    return target, drawing.uniform(0.5, 10), {"then": then}


def _slow(drawing: random.Random) -> Drawn:
    latency_s, rate = drawing.uniform(0.02, 0.4), drawing.choice((4_000, 20_000, 200_000))
    return _link(drawing), drawing.uniform(1, 10), {"latency_s": latency_s, "bytes_per_s": rate}


def _link(drawing: random.Random) -> str:
    return drawing.choice(LINKS[:7] if drawing.random() < 0.6 else LINKS[7:])


def _bench(lasts_s: tuple[float, float]) -> Any:
    def draw(drawing: random.Random) -> Drawn:
        return drawing.choice(AGENTS), drawing.uniform(*lasts_s), {}

    return draw


def _frames(drawing: random.Random) -> Drawn:
    shares = {"lost": drawing.uniform(0, 0.5), "repeated": drawing.uniform(0, 0.5)}
    facts = {"seed": drawing.getrandbits(32), **shares}
    return f"{drawing.choice(AGENTS)}-web", drawing.uniform(2, 12), facts


def _clock(drawing: random.Random) -> Drawn:
    step_s = drawing.choice((-1, 1)) * drawing.choice((2, 30, 600, 7200, 86_400 * 3))
    return drawing.choice(AGENTS), drawing.uniform(2, 12), {"step_s": step_s}


def _disk_storage(drawing: random.Random) -> Drawn:
    return "storage-disk", drawing.uniform(1, 8), {}


def _disk_agent(drawing: random.Random) -> Drawn:
    return f"{drawing.choice(SMALL_DISKS)}-disk", drawing.uniform(1, 8), {}


_DRAWN = {
    "kill": _kill,
    "stop": _stop,
    "restart": _kill,
    "cut": _cut,
    "silence": _silence,
    "slow": _slow,
    "bench-kill": _bench((0, 0)),
    "bench-stop": _bench((0.5, 5)),
    "frames": _frames,
    "clock": _clock,
    "disk-storage": _disk_storage,
    "disk-agent": _disk_agent,
}
