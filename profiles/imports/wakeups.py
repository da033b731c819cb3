"""Wake-ups of the pages that show an opened profile, which carry no data."""

from django.db import transaction

from webprofile.observability.counters import hint_given
from webprofile.realtime.layer import tell


def opened_group(upload_id: int) -> str:
    return f"opened.{upload_id}"


def opened_changed_on_commit(upload_id: int) -> None:
    """Tell pages that show this opened profile to read again."""
    transaction.on_commit(lambda: opened_changed(upload_id), robust=True)


def opened_changed(upload_id: int) -> None:
    """The same here and now."""
    with hint_given("opened.changed"):
        tell([opened_group(upload_id)], {"type": "opened.changed"})
