"""The one place where a DomainError becomes an answer over HTTP."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from webprofile.errors import DomainError
from webprofile.wording import as_json, word


class DomainErrorMiddleware:
    """JSON for scripts, a page for readers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, DomainError):
            return None
        if wants_json(request):
            return JsonResponse(as_json(error), status=error.status)
        context = {"message": word(error)}
        return render(request, "error.html", context, status=error.status)


def wants_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json" or request.accepts("text/html") is False
