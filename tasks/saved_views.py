"""Saved views: filters of the task list that a user stores under a name."""

from django.db import transaction

from accounts.models import User
from tasks.models import SavedView
from webprofile.errors import DomainError

MOST_VIEWS = 40


@transaction.atomic
def save_task_view(owner: User, *, name: str, query: str) -> tuple[SavedView, str]:
    """Store a query under a name; replace the view of this name if there is one.

    Returns the view, and its previous query, which is empty if the view is new. Raises DomainError
    view_name_bad, view_query_bad, view_limit.
    """
    name = " ".join(name.split())
    if not name or len(name) > 60 or not name.isprintable():
        raise DomainError("view_name_bad", field="name", limit=60)
    if not query or len(query) > 1000:
        raise DomainError("view_query_bad", field="name")
    # the lock serializes concurrent requests, so that the limit holds
    User.objects.select_for_update().get(pk=owner.pk)
    previous = SavedView.objects.filter(owner=owner, name=name).first()
    if previous is None and SavedView.objects.filter(owner=owner).count() >= MOST_VIEWS:
        raise DomainError("view_limit", field="name", limit=MOST_VIEWS)
    view, _ = SavedView.objects.update_or_create(owner=owner, name=name, defaults={"query": query})
    return view, previous.query if previous else ""
