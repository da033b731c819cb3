"""What comes in about devices and pools, from administrators."""

from typing import Any

import django_filters
from django.db.models import QuerySet

from webprofile.rest import fields
from webprofile.rest.filtering import TextFilter, YesFilter
from workers.heartbeats import Beat, beat_is
from workers.models import Worker
from workers.rest.filters import WorkerFilters
from workers.searching import workers_saying

MOST_WORKERS = 1000
#: of one act on several
MOST_NAMED = 500
WORKER_ACTS = (
    "drain", "resume", "check", "publish", "hide", "allow-scripts", "forbid-scripts", "revoke",
    "retire",
)  # fmt: skip
STATES = ("service", "drained", "held", "retired")


class RegisterBody(fields.Body):
    """A new device."""

    name = fields.Text(
        max_length=60, help_text="Letters, digits, dot, dash and underscore; of no other device."
    )
    is_public = fields.Flag(
        required=False, default=False, help_text="Whether every user may choose it."
    )


class WorkerBody(fields.Body):
    """What may be changed of a device without an act; what is not given stays."""

    name = fields.Text(required=False, max_length=60, help_text="As of a new device.")
    slots = fields.Integer(
        required=False, min_value=1, max_value=16, help_text="Tasks that it may run at once."
    )
    labels = fields.Table(
        child=fields.Text(max_length=100),
        required=False,
        help_text="All labels that administrators set: at most 32 names with their values.",
    )
    pools = fields.List(
        child=fields.Text(max_length=60),
        required=False,
        max_length=MOST_WORKERS,
        help_text="Names of all pools that it is in.",
    )


class WorkerActsBody(fields.Body):
    """One act and the devices that it is about."""

    act = fields.Choice(WORKER_ACTS, help_text="As the address of the act on one device.")
    workers = fields.List(
        child=fields.Named(help_text="Number or name."),
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Devices by number or name.",
    )


class PoolBody(fields.Body):
    """A pool."""

    name = fields.Text(max_length=60, help_text="Letters, digits, dot, dash and underscore.")
    description = fields.Text(
        required=False, default="", allow_blank=True, max_length=300, help_text="What it is for."
    )
    workers = fields.List(
        child=fields.Text(max_length=60),
        required=False,
        default=list,
        max_length=MOST_WORKERS,
        help_text="Names of its devices.",
    )


class PoolChange(fields.Body):
    """What changes of a pool; what is not given stays."""

    name = fields.Text(required=False, max_length=60, help_text="Its name.")
    description = fields.Text(
        required=False, allow_blank=True, max_length=300, help_text="What it is for."
    )
    workers = fields.List(
        child=fields.Text(max_length=60),
        required=False,
        max_length=MOST_WORKERS,
        help_text="Names of all its devices.",
    )


class HardwareFilters(WorkerFilters):
    """Those of everybody, and by heartbeat, state and access."""

    beat = django_filters.ChoiceFilter(
        choices=Beat.choices, method="with_beat", help_text="How to read its last heartbeat."
    )
    state = django_filters.ChoiceFilter(
        choices=[(each, each) for each in STATES],
        method="with_state",
        help_text="In service, drained, held back or retired.",
    )
    public = YesFilter(field_name="is_public", help_text="Whether every user may choose it.")
    search = TextFilter(
        method="with_text",
        max_length=100,
        help_text="As everybody's, and a part of host name, IP address or pool.",
    )

    class Meta:
        model = Worker
        fields: tuple[str, ...] = ()

    def with_text(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return workers_saying(rows, value, private=True)

    def with_beat(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        return rows.filter(beat_is(Beat(value)))

    def with_state(self, rows: QuerySet[Worker], name: str, value: str) -> Any:
        if value == "retired":
            return rows.filter(retired_at__isnull=False)
        rows = rows.filter(retired_at=None)
        if value == "drained":
            return rows.filter(is_enabled=False)
        if value == "held":
            return rows.filter(held_at__isnull=False)
        return rows.filter(is_enabled=True, held_at=None)
