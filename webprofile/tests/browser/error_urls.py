"""The site, and addresses at which its pages for errors can be looked at."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from webprofile import urls, views

handler404 = urls.handler404


def bad_request(request: HttpRequest) -> HttpResponse:
    return views.bad_request(request, None)


def forbidden(request: HttpRequest) -> HttpResponse:
    return views.forbidden(request, None)


def too_many(request: HttpRequest) -> HttpResponse:
    return render(request, "429.html", status=429)


ERRORS = {
    "/errors/400/": bad_request,
    "/errors/403/": forbidden,
    "/errors/429/": too_many,
    "/errors/500/": views.server_error,
}
urlpatterns = [
    *(path(address.removeprefix("/"), view) for address, view in ERRORS.items()),
    path("", include(urls)),
]
