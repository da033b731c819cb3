"""Wake-ups of the pages that show an opened profile, which carry no data."""

from django.db import transaction

from webprofile.layers import tell
from webprofile.meters import hint_given


def opened_group(upload_id: int) -> str:
    return f"opened.{upload_id}"


def opened_changed_on_commit(upload_id: int) -> None:
    """Tell pages that show this opened profile to read again."""
    transaction.on_commit(lambda: opened_changed(upload_id), robust=True)


def opened_changed(upload_id: int) -> None:
    """The same here and now."""
    with hint_given("opened.changed"):
        tell([opened_group(upload_id)], {"type": "opened.changed"})
