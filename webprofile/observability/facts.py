"""Middleware that adds the user's id and the requested object to the log lines of a request."""

from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webprofile.observability.requests import FACTS

#: URL parameters and their log fields
_FIELDS = {"task_id": "task", "profile_id": "profile", "upload_id": "upload"}


class FactsMiddleware:
    """Bind the user's id and the object's id to all log lines of a request and to its access line.

    E-mail addresses are never logged.
    """

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
        fields = {_FIELDS[name]: value for name, value in kwargs.items() if name in _FIELDS}
        # requests of agents, probes and API clients have no session to load
        if settings.SESSION_COOKIE_NAME in request.COOKIES and request.user.pk is not None:
            fields["user"] = request.user.pk
        note(request, **fields)


def note(request: HttpRequest, **facts: Any) -> None:
    """Bind log fields of a request, also for the access line that `RequestMiddleware` writes."""
    structlog.contextvars.bind_contextvars(**facts)
    getattr(request, "scope", {}).get(FACTS, {}).update(facts)
