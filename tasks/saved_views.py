"""Filters of the task list that a user keeps under a name."""

from django.db import transaction

from accounts.models import User
from tasks.models import SavedView
from webprofile.errors import DomainError

MOST_VIEWS = 40


@transaction.atomic
def save_task_view(owner: User, *, name: str, query: str) -> tuple[SavedView, str]:
    """Keep a query under a name; one of this name is replaced.

    Returns the view, and the query that it had before, empty if it is new. Raises DomainError
    view_name_bad, view_query_bad, view_limit.
    """
    name = " ".join(name.split())
    if not name or len(name) > 60 or not name.isprintable():
        raise DomainError("view_name_bad", field="name", limit=60)
    if not query or len(query) > 1000:
        raise DomainError("view_query_bad", field="name")
    # two that save at once do so one after the other
    User.objects.select_for_update().get(pk=owner.pk)
    found = SavedView.objects.filter(owner=owner, name=name).first()
    if found is None and SavedView.objects.filter(owner=owner).count() >= MOST_VIEWS:
        raise DomainError("view_limit", field="name", limit=MOST_VIEWS)
    view, _ = SavedView.objects.update_or_create(owner=owner, name=name, defaults={"query": query})
    return view, found.query if found else ""
