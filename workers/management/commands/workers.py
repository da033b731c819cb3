"""`manage.py workers`: devices, enrolled and taken out of service."""

import json
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Count, Q

from tasks.states import TaskState
from webprofile.management.bulk import confirm, explain_command, plain_errors
from webprofile.terminal.exit_codes import USAGE
from webprofile.terminal.output import table
from workers import services
from workers.enrolling import enrol_line
from workers.heartbeats import beat_of
from workers.models import Worker

FIELDS = ("device", "heartbeat", "state", "public", "versions", "agent", "waiting", "live")


_EXAMPLES = {
    "list": "workers list --json",
    "enrol": "workers enrol pi-4 --public",
    "drain": "workers drain x86-1 pi-4",
    "allow-scripts": "workers allow-scripts x86-1",
    "retire": "workers retire pi-4 --yes",
}


class Command(BaseCommand):
    """Every change is noted in the audit log, without a name: it came from the server itself."""

    help = (
        "List, enrol, drain, resume, publish, hide, shut out and retire devices, and say which of "
        "them run scripts."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        explain_command(parser, *_EXAMPLES.values())
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = verbs.add_parser("list", help="print devices")
        explain_command(listing, _EXAMPLES["list"], text="print devices")
        listing.add_argument("--retired", action="store_true", help="those out of service too")
        listing.add_argument("--json", action="store_true", help="one JSON object a line")
        enrol = verbs.add_parser("enrol", help="print the line to paste on a device")
        explain_command(enrol, _EXAMPLES["enrol"], text="print the line to paste on a device")
        enrol.add_argument("name", metavar="DEVICE", help="registered now if it is new")
        enrol.add_argument("--public", action="store_true", help="a new one is for every user")
        ways = ("curl", "pipx", "clone")
        enrol.add_argument("--with", dest="way", choices=ways, default="curl", help="usual: curl")
        for verb, (text, _) in _ACTS.items():
            added = verbs.add_parser(verb, help=text)
            explain_command(added, _EXAMPLES.get(verb, f"workers {verb} x86-1 pi-4"), text=text)
            added.add_argument("names", nargs="+", metavar="DEVICE")
            if verb in _FINAL:
                added.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, **options: Any) -> None:
        verb = options["verb"]
        with plain_errors():
            if verb == "list":
                self._list(options)
            elif verb == "enrol":
                self._enrol(options)
            else:
                self._act(verb, options)

    def _enrol(self, options: dict[str, Any]) -> None:
        """The line is a secret, valid once and for a day: it goes to standard output alone."""
        name = options["name"]
        worker = Worker.objects.filter(name=name, retired_at=None).first()
        if worker is None:
            worker = services.worker_register(name=name, by=None, is_public=options["public"])
        elif options["public"]:
            raise CommandError(f"{name} is registered: “publish” opens it.", returncode=USAGE)
        line = enrol_line(worker, services.worker_enrol(worker, by=None))[options["way"]]
        if not line:
            raise CommandError("This site serves no agent: --with clone.")
        self.stdout.write(line)

    def _act(self, verb: str, options: dict[str, Any]) -> None:
        chosen = [_named(name) for name in options["names"]]
        if verb in _FINAL:
            confirm(f"{verb.capitalize()} {', '.join(options['names'])}?", options)
        for name, worker in zip(options["names"], chosen, strict=True):
            done = "done" if _ACTS[verb][1](worker) else "was so before"
            self.stdout.write(f"{name} {done}")

    def _list(self, options: dict[str, Any]) -> None:
        workers = Worker.objects.order_by("name").prefetch_related("runtimes")
        if not options["retired"]:
            workers = workers.filter(retired_at=None)
        waiting = Q(tasks__state=TaskState.WAITING)
        # of two joins at once each row would count for all of the other
        live = dict(
            workers.filter(attempts__ended_at=None, attempts__isnull=False)
            .order_by()
            .values_list("pk")
            .annotate(Count("attempts"))
        )
        rows = (
            _row(worker, live.get(worker.pk, 0))
            for worker in workers.annotate(waiting=Count("tasks", filter=waiting))
        )
        if options["json"]:
            for row in rows:
                self.stdout.write(json.dumps(row))
        else:
            shown = [list(row.values()) for row in rows]
            self.stdout.write(table(shown, FIELDS))


#: what cannot be taken back by the opposite
_FINAL = ("retire", "revoke")
_ACTS: dict[str, tuple[str, Callable[[Worker], object]]] = {
    "drain": ("no new tasks; what runs goes on", lambda w: services.worker_drain(w, by=None)),
    "resume": ("give tasks again", lambda w: services.worker_resume(w, by=None)),
    "publish": ("let every user choose", lambda w: services.worker_publish(w, by=None)),
    "hide": ("only for those granted", lambda w: services.worker_hide(w, by=None)),
    "allow-scripts": (
        "let those who may use it run Python programs there, in a sandbox",
        lambda w: services.worker_allow_scripts(w, by=None),
    ),
    "forbid-scripts": (
        "start no more scripts; what runs goes on",
        lambda w: services.worker_forbid_scripts(w, by=None),
    ),
    "revoke": ("shut the agent out until enrolled", lambda w: services.worker_revoke(w, by=None)),
    "retire": ("out of service for good", lambda w: services.worker_retire(w, by=None)),
}


def _named(name: str) -> Worker:
    """Raises CommandError if there is none."""
    worker = Worker.objects.filter(name=name).first()
    if worker is None:
        raise CommandError(f"There is no device {name}.", returncode=USAGE)
    return worker


def _row(worker: Any, live: int) -> dict[str, Any]:
    versions = [r.version + (" (broken)" if r.problem else "") for r in worker.runtimes.all()]
    values = (
        worker.name,
        beat_of(worker).value,
        _state(worker),
        worker.is_public,
        ", ".join(versions),
        worker.agent_version,
        worker.waiting,
        live,
    )
    return dict(zip(FIELDS, values, strict=True))


def _state(worker: Worker) -> str:
    if worker.retired_at is not None:
        return "retired"
    if not worker.is_enabled:
        return "drained"
    return "held back" if worker.held_at is not None else "in service"
