"""Draw the kind, time, target and duration of each fault from the seed, without side effects."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

REAL = ("real-1", "real-2")
SIMULATED = tuple(f"sim-{number}" for number in range(1, 9))
AGENTS = REAL + SIMULATED
SERVERS = ("web", "dispatch", "actors", "sweep", "redis", "storage")
#: names of the proxies; `files` is the address of the storage for browsers and agents
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
#: agents whose spool is on a disk of its own, which can be filled
SMALL_DISKS = ("real-1", "sim-1", "sim-2")
#: how many faults are active at the same time, and the pauses between their starts
MOST_AT_ONCE = 3
PAUSE_S = (0.3, 2.7)
#: a silence that outlasts a lease, so that another attempt takes over the agent's tasks
LONG_S = (38.0, 50.0)


@dataclass(frozen=True)
class Fault:
    """One fault.

    begin_s: earliest start after the first fault may start; it is delayed while too many are active
    target: a part, an agent, a link or a disk
    lasts_s: 0 for a fault without a duration
    facts: the parameters of its kind
    """

    number: int
    kind: str
    target: str
    begin_s: float
    lasts_s: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def conflict_key(self) -> str:
        """Key of the resource that two active faults never share."""
        return self.target


#: kind -> relative frequency
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
    """Return the first `count` faults of a seed. A longer run starts with the same faults."""
    return [fault for fault, _ in zip(_endless(seed), range(count), strict=False)]


def _endless(seed: int) -> Iterator[Fault]:
    rng = random.Random(seed)
    begin_s, number = 0.0, 0
    kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
    order: list[str] = []
    while True:
        number += 1
        begin_s += rng.uniform(*PAUSE_S)
        # each cycle contains every kind at least once, so that short runs do too
        if not order:
            order = kinds + rng.choices(kinds, weights, k=2 * len(kinds))
            rng.shuffle(order)
        kind = order.pop()
        target, lasts_s, facts = _DRAWN[kind](rng)
        yield Fault(number, kind, target, begin_s, lasts_s, facts)


Drawn = tuple[str, float, dict[str, Any]]


def _part(rng: random.Random) -> str:
    """Choose a part. Servers are few, so they get 60 % of the draws."""
    return rng.choice(SERVERS if rng.random() < 0.6 else AGENTS)


def _kill(rng: random.Random) -> Drawn:
    return _part(rng), 0.0, {}


def _stop(rng: random.Random) -> Drawn:
    target = _part(rng)
    if target in AGENTS and rng.random() < 0.12:
        return target, rng.uniform(*LONG_S), {}
    return target, rng.uniform(0.5, 8), {}


def _cut(rng: random.Random) -> Drawn:
    return _link(rng), rng.uniform(0.5, 10), {}


def _silence(rng: random.Random) -> Drawn:
    """Silence a link. Afterwards its connections go on, break, or stay silent for ever."""
    target, then = _link(rng), rng.choice(("goes on", "breaks", "is forgotten"))
    if target.endswith("-web") and rng.random() < 0.15:
        return target, rng.uniform(*LONG_S), {"then": then}
    return target, rng.uniform(0.5, 10), {"then": then}


def _slow(rng: random.Random) -> Drawn:
    latency_s, rate = rng.uniform(0.02, 0.4), rng.choice((4_000, 20_000, 200_000))
    return _link(rng), rng.uniform(1, 10), {"latency_s": latency_s, "bytes_per_s": rate}


def _link(rng: random.Random) -> str:
    return rng.choice(LINKS[:7] if rng.random() < 0.6 else LINKS[7:])


def _bench(lasts_s: tuple[float, float]) -> Any:
    def draw(rng: random.Random) -> Drawn:
        return rng.choice(AGENTS), rng.uniform(*lasts_s), {}

    return draw


def _frames(rng: random.Random) -> Drawn:
    shares = {"lost": rng.uniform(0, 0.5), "repeated": rng.uniform(0, 0.5)}
    facts = {"seed": rng.getrandbits(32), **shares}
    return f"{rng.choice(AGENTS)}-web", rng.uniform(2, 12), facts


def _clock(rng: random.Random) -> Drawn:
    step_s = rng.choice((-1, 1)) * rng.choice((2, 30, 600, 7200, 86_400 * 3))
    return rng.choice(AGENTS), rng.uniform(2, 12), {"step_s": step_s}


def _disk_storage(rng: random.Random) -> Drawn:
    return "storage-disk", rng.uniform(1, 8), {}


def _disk_agent(rng: random.Random) -> Drawn:
    return f"{rng.choice(SMALL_DISKS)}-disk", rng.uniform(1, 8), {}


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
