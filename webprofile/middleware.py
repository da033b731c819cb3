"""Middleware: host of the viewers, caches, allowed methods, user preferences, error responses."""

import time
from collections.abc import Callable
from datetime import UTC
from typing import ClassVar

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
from django.utils.translation import gettext as _

from accounts import audit, preferences
from accounts.models import User
from accounts.sessions import NO_ADDRESS
from webprofile.api.problems import is_api, problem, retry_headers
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from webprofile.origins import is_viewer_host
from webprofile.outages import logged_outage
from webprofile.turns import request_turn


class _Middleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response


class DomainErrorMiddleware(_Middleware):
    """Convert DomainError to problem details for programs and to an error page for browsers.

    A browser that opens the address of an action also gets a page.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_action = isinstance(response, HttpResponseNotAllowed) and request.method == "GET"
        if not is_action or is_api(request) or wants_json(request):
            return response
        context = {
            "title": _("Page not found"),
            "message": _("This URL performs an action. Go back and use the button on the page."),
        }
        page = render(request, "error.html", context, status=response.status_code)
        page["Allow"] = response["Allow"]
        return page

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, DomainError):
            outage = logged_outage(error)
            return _error_response(request, outage) if outage else None
        return _error_response(request, error)


class TurnMiddleware(_Middleware):
    """Let each user's requests wait for a turn (`webprofile.turns`).

    The API begins the turn of a request with a token, whose user is not known here.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with request_turn() as turn:
            user = _user_of_session(request)
            try:
                if user is not None:
                    turn.begin(user.pk)
            except DomainError as error:
                return _error_response(request, error)
            return self.get_response(request)


class ReaderMiddleware(_Middleware):
    """Activate the user's language and time zone, set the IP address of audit log entries, and
    record when the session was last used.
    """

    #: resolution of the last use of a session, which also extends the session
    SEEN_EVERY_S = 300

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = _user_of_session(request)
        language = preferences.activate_language(user) if user else None
        if language:
            request.LANGUAGE_CODE = language
        address = audit.client_address.set(_address_of(request))
        cookie = request.COOKIES.get(preferences.COOKIE, "")
        # the API returns times in UTC, whatever zone the user chose for pages
        zone = UTC if is_api(request) else preferences.user_time_zone(user, cookie)
        try:
            with timezone.override(zone):
                # navigation to a page has this type, as opposed to a script's request
                if user and "application/xhtml+xml" in request.headers.get("Accept", ""):
                    self._note_seen(request)
                return self.get_response(request)
        finally:
            audit.client_address.reset(address)

    def _note_seen(self, request: HttpRequest) -> None:
        now = int(time.time())
        if now - request.session.get("seen_at", 0) < self.SEEN_EVERY_S:
            return
        request.session["seen_at"] = now
        address = _address_of(request)
        ip = {"ip": address} if address else {}
        UserSession.objects.filter(session_key=request.session.session_key).update(
            last_seen_at=timezone.now(), **ip
        )


class ViewerHostMiddleware(_Middleware):
    """Serve the viewers only on the host of `NETRON_ORIGIN`, and nothing else on that host."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_viewer = request.path.startswith(("/netron/", "/perfetto/"))
        if settings.NETRON_ORIGIN and is_viewer is not is_viewer_host(request):
            return HttpResponseNotFound("Not found.", content_type="text/plain")
        return self.get_response(request)


class ShareMiddleware(_Middleware):
    """Handle requests below `/s/`, where share links are, without any login.

    Cookies and credentials are dropped before anything reads them, so that the pages are the same
    for everybody, also for a user who is logged in; only the chosen language is kept. Responses set
    no cookie and cannot be stored, indexed or framed, and their requests to others do not name the
    link.
    """

    HEADERS: ClassVar = {
        "Cache-Control": "no-store",
        "X-Robots-Tag": "noindex, nofollow",
        "Referrer-Policy": "no-referrer",
    }

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith("/s/"):
            return self.get_response(request)
        language = request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME)
        for name in ("HTTP_COOKIE", "HTTP_AUTHORIZATION"):
            request.META.pop(name, None)
        request.COOKIES = {settings.LANGUAGE_COOKIE_NAME: language} if language else {}
        request.is_shared = True  # type: ignore[attr-defined]
        if request.method in ("GET", "HEAD"):
            response = self.get_response(request)
        else:
            response = HttpResponseNotAllowed(("GET", "HEAD"))
        response.cookies.clear()
        for name, value in self.HEADERS.items():
            response[name] = value
        return response


class PageMethodsMiddleware(_Middleware):
    """Reject methods other than GET, HEAD and POST outside the API.

    Views of Django and allauth would treat PUT, DELETE or unknown methods like GET or POST. The API
    checks methods itself.
    """

    METHODS = ("GET", "HEAD", "POST")

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in self.METHODS and not is_api(request):
            return HttpResponseNotAllowed(self.METHODS)
        return self.get_response(request)


class CacheControlMiddleware(_Middleware):
    """Forbid caches to store responses, unless the view sets `Cache-Control`.

    Without the header a browser or proxy may store private pages, and show them after a logout. A
    response with a validator is stored by the browser only and compared before each use.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        has_validator = "ETag" in response or "Last-Modified" in response
        value = "private, no-cache" if has_validator else "private, no-store"
        response.headers.setdefault("Cache-Control", value)
        return response


def _error_response(request: HttpRequest, error: DomainError) -> HttpResponse:
    if is_api(request) or wants_json(request):
        return problem(error)
    page = render(request, "error.html", {"message": word(error)}, status=error.status)
    for name, value in retry_headers(error).items():
        page[name] = value
    return page


def _user_of_session(request: HttpRequest) -> User | None:
    # requests of agents and probes have no session to load
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return None
    return request.user if isinstance(request.user, User) else None


def _address_of(request: HttpRequest) -> str | None:
    """Return the client's IP address, None if it is unknown."""
    address: str = get_adapter().get_client_ip(request)
    return None if address == NO_ADDRESS else address


def wants_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json" or request.accepts("text/html") is False
