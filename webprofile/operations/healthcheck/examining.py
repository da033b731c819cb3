"""Run all checks concurrently, with a time limit."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from django.db import connections

from webprofile.operations.healthcheck import clock, messages, objects, rows, site
from webprofile.operations.healthcheck.finding import TIME_LIMIT_S, Finding, allow, broken, reason
from webprofile.operations.healthcheck.web import Unreachable


@dataclass(frozen=True)
class Part:
    """A part of the site and its check.

    step: suggested fix if the check raises
    unreachable: builds the finding if nothing responds, from the text of the error
    """

    name: str
    examine: Callable[[], Finding]
    step: str
    unreachable: Callable[[str], Finding] | None = None


PARTS = (
    Part("database", rows.database, "Correct DATABASE_URL; see the log of the database."),
    Part("migrations", rows.migrations, "First correct the problem in the line `database`."),
    Part("broker", messages.broker, messages.BROKER_STEP),
    Part("dispatch", messages.dispatch, messages.BROKER_STEP),
    Part("actors", messages.actors, messages.BROKER_STEP),
    Part("channel layer", messages.channel_layer, messages.LAYER_STEP),
    Part("cache", messages.cache_server, messages.CACHE_STEP),
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


def examine(
    parts: Sequence[Part] = PARTS, *, time_limit_s: float = TIME_LIMIT_S
) -> Iterator[tuple[str, Finding]]:
    """Yield (name, finding) in the order of `parts`; all checks together take `time_limit_s`.

    A check that hangs stays in a daemon thread, which does not keep the process alive.
    """
    findings: dict[str, Finding] = {}
    threads = [
        threading.Thread(target=_try, args=(part, time_limit_s, findings), daemon=True)
        for part in parts
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + time_limit_s
    for part, thread in zip(parts, threads, strict=True):
        thread.join(max(0.0, deadline - time.monotonic()))
        late = broken(f"No answer in {time_limit_s:g} s.", part.step)
        yield part.name, findings.get(part.name, late)


def _try(part: Part, limit_s: float, findings: dict[str, Finding]) -> None:
    """Store the finding about a part by its name."""
    allow(limit_s)
    try:
        findings[part.name] = part.examine()
    except Unreachable as error:
        make_finding = part.unreachable or (lambda text: broken(text, part.step))
        findings[part.name] = make_finding(str(error))
    except Exception as error:
        # any exception of a library is a finding about its part; the other checks continue
        findings[part.name] = broken(reason(error), part.step)
    finally:
        connections.close_all()
