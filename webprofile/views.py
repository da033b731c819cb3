"""Pages of the project itself."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.utils.translation import gettext as _


def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process serves; touches nothing."""
    return HttpResponse("ok\n", content_type="text/plain")


def favicon(request: HttpRequest) -> HttpResponse:
    return redirect(static("img/mark.svg"))


def not_found(request: HttpRequest, exception: Any) -> HttpResponse:
    context = {
        "title": _("Not found"),
        "message": _("There is nothing at this address, or it is not yours to see."),
    }
    return render(request, "error.html", context, status=404)


def forbidden(request: HttpRequest, exception: Any) -> HttpResponse:
    context = {
        "title": _("Not allowed"),
        "message": _("These pages are for administrators. Log in as one, or ask one."),
    }
    return render(request, "error.html", context, status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    context = {
        "title": _("Something went wrong"),
        "message": _("The fault is ours and has been logged. Try again in a minute."),
    }
    return render(request, "500.html", context, status=500)
