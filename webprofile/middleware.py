"""What stands between every request and its view: the viewer's host, and errors with a code."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound, JsonResponse
from django.shortcuts import render

from webprofile.errors import DomainError
from webprofile.origins import is_viewer_host
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


class ViewerHostMiddleware:
    """On the host of `NETRON_ORIGIN` the viewer is all there is, and there alone it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_viewer = request.path.startswith("/netron/")
        if settings.NETRON_ORIGIN and is_viewer is not is_viewer_host(request):
            return HttpResponseNotFound("Not found.", content_type="text/plain")
        return self.get_response(request)


def wants_json(request: HttpRequest) -> bool:
    return request.content_type == "application/json" or request.accepts("text/html") is False
