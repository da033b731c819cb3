"""What the log says of a request beside its id: who asks (never the mail), about which thing."""

from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webprofile.observability.requests import FACTS

#: parts of addresses, and the field that each is in a log
_FIELDS = {"task_id": "task", "profile_id": "profile", "upload_id": "upload"}


class FactsMiddleware:
    """Binds user and thing for all lines until the answer, and leaves them for the last one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self.get_response(request)
        finally:
            structlog.contextvars.unbind_contextvars("user", *_FIELDS.values())

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        found = {_FIELDS[name]: value for name, value in kwargs.items() if name in _FIELDS}
        # agents, probes and the API have no session, and none is asked for
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.pk is not None:
            found["user"] = request.user.pk
        note(request, **found)


def note(request: HttpRequest, **facts: Any) -> None:
    """Bind facts about a request, also for the line that the outermost layer writes."""
    structlog.contextvars.bind_contextvars(**facts)
    getattr(request, "scope", {}).get(FACTS, {}).update(facts)
