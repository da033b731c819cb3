"""Wake-up messages to pages that show an import; the messages carry no data."""

from django.db import transaction

from webprofile.observability.counters import hint_given
from webprofile.realtime.layer import tell


def opened_group(upload_id: int) -> str:
    return f"opened.{upload_id}"


def opened_changed_on_commit(upload_id: int) -> None:
    """Wake up pages that show this import after the transaction commits."""
    transaction.on_commit(lambda: opened_changed(upload_id), robust=True)


def opened_changed(upload_id: int) -> None:
    """Wake up pages that show this import immediately."""
    with hint_given("opened.changed"):
        tell([opened_group(upload_id)], {"type": "opened.changed"})
