"""URLconf of the site with further paths for pages that a test cannot provoke."""

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from accounts.forms import ResetPasswordForm
from webprofile import urls, views

handler404 = urls.handler404


def bad_request(request: HttpRequest) -> HttpResponse:
    return views.bad_request(request, None)


def too_large(request: HttpRequest) -> HttpResponse:
    return views.bad_request(request, RequestDataTooBig())


def forbidden(request: HttpRequest) -> HttpResponse:
    return views.forbidden(request, None)


def too_many(request: HttpRequest) -> HttpResponse:
    return render(request, "429.html", status=429)


def other_login(request: HttpRequest) -> HttpResponse:
    """The page that confirms a login at an identity provider."""
    context = {"provider": {"name": "Example Ltd."}, "process": "login"}
    return render(request, "socialaccount/login.html", context)


def other_signup(request: HttpRequest) -> HttpResponse:
    """The page for an identity provider that sends no e-mail address."""
    provider = {"get_provider": {"name": "Example Ltd."}}
    return render(
        request, "socialaccount/signup.html", {"form": ResetPasswordForm(), "account": provider}
    )


OTHER_LOGINS = {
    "/accounts/3rdparty/somewhere/": other_login,
    "/accounts/3rdparty/somewhere/signup/": other_signup,
}
ERRORS = {
    "/errors/400/": bad_request,
    "/errors/403/": forbidden,
    "/errors/csrf/": views.csrf_failure,
    "/errors/413/": too_large,
    "/errors/429/": too_many,
    "/errors/500/": views.server_error,
}
urlpatterns = [
    *(
        path(address.removeprefix("/"), view)
        for address, view in {**ERRORS, **OTHER_LOGINS}.items()
    ),
    path("", include(urls)),
]
