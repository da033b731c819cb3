"""What comes in about users, from administrators."""

from typing import Any

import django_filters
from django.db.models import QuerySet

from accounts.models import AuditEntry, User
from accounts.selectors import entries_with
from webprofile.administration.entries import ACTIONS, TARGETS, action_name
from webprofile.rest import fields
from webprofile.rest.filtering import KeyFilter, MomentFilter, TextFilter, YesFilter

MOST_NAMED = 500
USER_ACTS = (
    "promote", "demote", "deactivate", "reactivate", "end-sessions", "remove-second-factor",
)  # fmt: skip


class UserBody(fields.Body):
    """A user to be made."""

    email = fields.Text(max_length=254, help_text="The login; somebody vouches for it.")
    password = fields.Text(
        max_length=4096, trim_whitespace=False, help_text="As strong as the site wants it."
    )
    administrator = fields.Flag(
        required=False, default=False, help_text="Whether they get every right."
    )


class LimitBody(fields.Body):
    """What may be changed of a user without an act."""

    task_limit = fields.Integer(
        allow_null=True,
        max_value=2**31 - 1,
        help_text="Tasks waiting and running at once; null: the site's own limit.",
    )


class PasswordBody(fields.Body):
    """Another password."""

    password = fields.Text(
        max_length=4096, trim_whitespace=False, help_text="As strong as the site wants it."
    )


class GrantsBody(fields.Body):
    """Which users and which devices; every one of the first with every one of the second."""

    users = fields.List(
        child=fields.Named(help_text="Number or e-mail."),
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Users by number or e-mail.",
    )
    workers = fields.List(
        child=fields.Named(help_text="Number or name."),
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Devices by number or name.",
    )


class UserActsBody(fields.Body):
    """One act and the users whom it is about."""

    act = fields.Choice(USER_ACTS, help_text="As the address of the act on one user.")
    users = fields.List(
        child=fields.Named(help_text="Number or e-mail."),
        min_length=1,
        max_length=MOST_NAMED,
        help_text="Users by number or e-mail.",
    )


class UserFilters(django_filters.FilterSet):
    """By e-mail and role."""

    email = TextFilter(lookup_expr="icontains", max_length=254, help_text="A part of the e-mail.")
    administrator = YesFilter(field_name="is_staff", help_text="Whether they have every right.")
    active = YesFilter(field_name="is_active", help_text="Whether they may log in.")
    worker = TextFilter(
        field_name="granted_workers__name", max_length=60, help_text="A device granted to them."
    )

    class Meta:
        model = User
        fields: tuple[str, ...] = ()


class AuditFilters(django_filters.FilterSet):
    """Filters hold together."""

    action = django_filters.ChoiceFilter(
        choices=[(code, code) for code in ACTIONS], help_text="What was done."
    )
    target_type = django_filters.ChoiceFilter(
        choices=[(code, code) for code in TARGETS], help_text="Of what kind."
    )
    target_id = TextFilter(max_length=40, help_text="The number of what was changed.")
    actor = KeyFilter(field_name="actor_id", help_text="The number of who did it.")
    actor_email = TextFilter(
        lookup_expr="icontains", max_length=254, help_text="A part of who did it."
    )
    search = TextFilter(
        method="with_text",
        max_length=254,
        help_text="A part of who, of what, of the action (its code or words) or of the address; or "
        "the e-mail of a user to whom was granted.",
    )
    after = MomentFilter(field_name="at", lookup_expr="gte", help_text="At this moment or later.")
    before = MomentFilter(field_name="at", lookup_expr="lt", help_text="Before this moment.")

    class Meta:
        model = AuditEntry
        fields: tuple[str, ...] = ()

    def with_text(self, rows: QuerySet[AuditEntry], name: str, value: str) -> Any:
        text = value.casefold()
        actions = [code for code in ACTIONS if text in action_name(code).casefold()]
        return entries_with(rows, value, actions=actions)
