"""What stands between every request and its view: viewer's host, methods, reader, errors."""

import time
from collections.abc import Callable
from datetime import UTC

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseNotFound,
)
from django.shortcuts import render
from django.utils import timezone

from accounts import audit, preferences
from accounts.models import User
from accounts.sessions import NO_ADDRESS
from webprofile.api.problems import is_api, problem
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.origins import is_viewer_host


class DomainErrorMiddleware:
    """Problem details for programs, a page for readers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, DomainError):
            return None
        if wants_json(request):
            return problem(error)
        context = {"message": word(error)}
        return render(request, "error.html", context, status=error.status)


class ReaderMiddleware:
    """Who reads: language, zone of dates, address for the audit log, and when last seen."""

    #: how exactly "last seen" is told; a session lives on from then
    SEEN_EVERY_S = 300

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = self._user(request)
        language = preferences.language_activate(user) if user else None
        if language:
            request.LANGUAGE_CODE = language
        address = audit.address.set(_address_of(request))
        cookie = request.COOKIES.get(preferences.COOKIE, "")
        # programs get times in UTC, whatever zone the reader chose for pages
        zone = UTC if is_api(request) else preferences.zone_of(user, cookie)
        try:
            with timezone.override(zone):
                if user and _opens_page(request):
                    self._note_seen(request)
                return self.get_response(request)
        finally:
            audit.address.reset(address)

    def _user(self, request: HttpRequest) -> User | None:
        # agents and probes have no session, and none is asked for
        if settings.SESSION_COOKIE_NAME not in request.COOKIES:
            return None
        return request.user if isinstance(request.user, User) else None

    def _note_seen(self, request: HttpRequest) -> None:
        now = int(time.time())
        if now - request.session.get("seen_at", 0) < self.SEEN_EVERY_S:
            return
        request.session["seen_at"] = now
        address = _address_of(request)
        where = {"ip": address} if address else {}
        UserSession.objects.filter(session_key=request.session.session_key).update(
            last_seen_at=timezone.now(), **where
        )


class ViewerHostMiddleware:
    """On the host of `NETRON_ORIGIN` the viewers are all there is, and there alone they are."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_viewer = request.path.startswith(("/netron/", "/perfetto/"))
        if settings.NETRON_ORIGIN and is_viewer is not is_viewer_host(request):
            return HttpResponseNotFound("Not found.", content_type="text/plain")
        return self.get_response(request)


class PageMethodsMiddleware:
    """Pages are read and sent forms; the other methods are for the API, which judges its own.

    Views of Django and allauth answer PUT, DELETE or any word like GET or POST; here none does.
    """

    METHODS = ("GET", "HEAD", "POST")

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in self.METHODS and not is_api(request):
            return HttpResponseNotAllowed(self.METHODS)
        return self.get_response(request)


def _address_of(request: HttpRequest) -> str | None:
    """The client's address; None where none can be told."""
    address: str = get_adapter().get_client_ip(request)
    return None if address == NO_ADDRESS else address


def _opens_page(request: HttpRequest) -> bool:
    """Whether a reader goes to a page, as opposed to a page that looks for news by itself."""
    return "application/xhtml+xml" in request.headers.get("Accept", "")


def wants_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json" or request.accepts("text/html") is False
