"""Tries all parts at once, each with its time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from django.db import connections

from webprofile.operations.healthcheck import clock, messages, objects, rows, site
from webprofile.operations.healthcheck.finding import TIME_LIMIT_S, Finding, allow, broken, reason
from webprofile.operations.healthcheck.web import Unreachable


@dataclass(frozen=True)
class Part:
    """`step`: what to do when trying it raised; `unreachable`: words where nothing answered."""

    name: str
    examine: Callable[[], Finding]
    step: str
    unreachable: Callable[[str], Finding] | None = None


PARTS = (
    Part("database", rows.database, "Correct DATABASE_URL; see the database's own log."),
    Part("migrations", rows.migrations, "First let the database answer."),
    Part("broker", messages.broker, messages.BROKER_STEP),
    Part("dispatch", messages.dispatch, messages.BROKER_STEP),
    Part("actors", messages.actors, messages.BROKER_STEP),
    Part("channel layer", messages.channel_layer, messages.LAYER_STEP),
    Part("cache", messages.kept, messages.CACHE_STEP),
    Part("storage", objects.objects, objects.STEP),
    Part("public storage", objects.presigned, objects.PUBLIC_STEP, objects.unreachable),
    Part("uploads by browsers", objects.cross_origin, objects.PUBLIC_STEP, objects.unreachable),
    Part("mail", messages.mail, messages.MAIL_STEP),
    Part("clock", clock.clock, clock.STEP),
    Part("static files", site.static_files, "Run `manage.py collectstatic`."),
    Part("agent", site.agent_files, site.AGENT_STEP),
    Part("address", site.address, site.ADDRESS_STEP),
    Part("sockets", site.sockets, site.SOCKETS_STEP),
)


@dataclass
class _Examination:
    part: Part
    thread: threading.Thread
    found: list[Finding] = field(default_factory=list)


def examine(
    parts: Sequence[Part] = PARTS, *, time_limit_s: float = TIME_LIMIT_S
) -> Iterator[tuple[str, Finding]]:
    """Yield (name, what was found) in the order of `parts`; all together have `time_limit_s`.

    What hangs is left behind in a thread that does not keep the process alive.
    """
    running = [_begin(part, time_limit_s) for part in parts]
    deadline = time.monotonic() + time_limit_s
    for each in running:
        each.thread.join(max(0.0, deadline - time.monotonic()))
        if each.found:
            yield each.part.name, each.found[0]
        else:
            text = f"No answer in {time_limit_s:g} s."
            yield each.part.name, broken(text, each.part.step)


def _begin(part: Part, limit_s: float) -> _Examination:
    found: list[Finding] = []
    arguments = (part, limit_s, found)
    thread = threading.Thread(target=_try, args=arguments, daemon=True, name=part.name)
    thread.start()
    return _Examination(part, thread, found)


def _try(part: Part, limit_s: float, found: list[Finding]) -> None:
    allow(limit_s)
    try:
        found.append(part.examine())
    except Unreachable as error:
        say = part.unreachable or (lambda text: broken(text, part.step))
        found.append(say(str(error)))
    except Exception as error:
        # whatever a library raises is a finding about its part, and the other parts go on
        found.append(broken(reason(error), part.step))
    finally:
        connections.close_all()
