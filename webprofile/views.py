"""Views of the project itself: health check, favicon and error pages; context of all pages."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webprofile.api.problems import is_api, problem
from webprofile.errors import DomainError
from webprofile.site_mark import HEADER, QUESTION_LENGTH, site_mark


def site_context(request: HttpRequest) -> dict[str, bool]:
    """Return the variables of all templates (context processor).

    `is_traced`: whether pages send a `traceparent` header
    `has_mail_server`: whether the site sends mail, so that a page may announce a message
    `has_identity_provider`: whether users can log in with OpenID Connect
    """
    return {
        "has_mail_server": settings.HAS_MAIL_SERVER,
        "has_identity_provider": bool(settings.OIDC_APPS),
        "is_traced": settings.TRACING,
    }


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 while the process serves, without a database query.

    `?mark=` is a challenge by which the caller recognises this site (`webprofile.site_mark`).
    """
    response = HttpResponse("ok\n", content_type="text/plain")
    if question := request.GET.get("mark", "")[:QUESTION_LENGTH]:
        response[HEADER] = site_mark(question)
    return response


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    return redirect(static("img/mark.svg"))


def not_found(request: HttpRequest, exception: Any) -> HttpResponse:
    text = _("Page not found, or you don’t have access.")
    return _error(request, "not_found", 404, _("Not found"), text)


def bad_request(request: HttpRequest, exception: Any) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig) and not is_api(request):
        text = _("It is larger than the limit of %(limit)s KiB. Shorten its texts.")
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024
        title = _("This form is too large")
        return _error(request, "body_too_large", 413, title, text % {"limit": limit}, "500.html")
    text = _("The URL or the headers are not valid for this site.")
    title = _("This request cannot be read")
    return _error(request, "malformed", 400, title, text, "500.html")


def forbidden(request: HttpRequest, exception: Any) -> HttpResponse:
    text = _("Only administrators can open these pages.")
    return _error(request, "forbidden", 403, _("Not allowed"), text)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose CSRF token is not that of the session (setting CSRF_FAILURE_VIEW)."""
    message = _(
        "You have logged in again since the page was opened, or your browser blocks cookies of "
        "this site. Go back, reload the page and try again."
    )
    if reason.startswith(("Origin checking", "Referer checking")):
        message = _(
            "The form was not sent from a URL of this site. If you did open this site, its "
            "proxy forwards a wrong host or scheme: tell an administrator."
        )
    context = {"title": _("This form was not accepted"), "message": message}
    return render(request, "error.html", context, status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    text = _("This is an error of the site and has been logged. Try again in a minute.")
    return _error(request, "server_error", 500, _("Something went wrong"), text, "500.html")


def _error(
    request: HttpRequest,
    code: str,
    status: int,
    title: str,
    message: str,
    template: str = "error.html",
) -> HttpResponse:
    """Return a page with a title and a message; for the API, the problem with this code."""
    if is_api(request):
        return problem(DomainError(code, status=status))
    return render(request, template, {"title": title, "message": message}, status=status)
