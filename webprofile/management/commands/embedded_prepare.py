"""`manage.py embedded_prepare`: migrate and create users and a device in a single process."""

import json
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from accounts.services import ensure_user
from workers.services import ensure_worker
from workers.tokens import issue_code


class Command(BaseCommand):
    help = (
        "Migrate the database, create an administrator, a user and a device if they are missing, "
        "and print one line of JSON with passwords and an enrolment code, which is not shown again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--admin-email", required=True)
        parser.add_argument("--worker", required=True)
        parser.add_argument("--demo-user", help="e-mail address of an additional user")
        parser.add_argument("--enrol", action="store_true", help="issue an enrolment code")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        created: dict[str, Any] = {"admin": _ensure(options["admin_email"], administrator=True)}
        if options["demo_user"]:
            created["demo"] = _ensure(options["demo_user"])
        worker = ensure_worker(name=options["worker"])
        code = issue_code(worker) if options["enrol"] else None
        created["enrolment"] = {"worker": worker.name, "code": code}
        self.stdout.write(json.dumps(created))


def _ensure(email: str, *, administrator: bool = False) -> dict[str, str | None]:
    user, password = ensure_user(email=email, administrator=administrator)
    return {"email": user.email, "password": password}
