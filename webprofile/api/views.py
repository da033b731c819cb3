"""Base classes of API views, and the views of error codes, the schema and its documentation."""

import threading
from typing import Any
from urllib.parse import quote

from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import Resolver404, resolve, reverse
from django.utils import translation
from django.utils.decorators import method_decorator
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from webprofile.api.authentication import UserRequest
from webprofile.messages.errors import WORDINGS
from webprofile.messages.values import template, values_in
from webprofile.turns import begin_turn


class ApiView(APIView):
    """A view of the API; its attributes and methods are those of Django REST framework."""

    request: UserRequest
    #: scope that an access token needs; empty: "read" or "write" by method (`permissions`)
    scope: str = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Begin the user's turn (`webprofile.turns`).

        Raises Http404 for path values with a NUL character, which PostgreSQL rejects; DomainError
        throttled.
        """
        super().initial(request, *args, **kwargs)
        if request.user.is_authenticated:
            begin_turn(request.user.pk)
        if any("\0" in str(part) for part in kwargs.values()):
            raise Http404

    def options(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Return the allowed methods in `Allow`, without DRF's metadata: the schema has them."""
        return Response(status=204)


class ApiViewSet(ViewSetMixin, ApiView):
    """Actions on one resource; `urls.py` binds them to methods."""


class ApiListView(ApiView, ListAPIView):
    """A list in cursor pages."""


class FilledAnswer(serializers.Serializer):
    """A value that is inserted into the text of an error."""

    name = serializers.CharField(help_text="The name, as between the braces in `text`.")
    meaning = serializers.CharField(
        help_text="Description of the value with its unit, in the user's language."
    )


class ProblemMeaning(serializers.Serializer):
    """An error code and its text."""

    code = serializers.CharField(help_text="As in `code` of an error.")
    text = serializers.CharField(
        help_text=(
            "Its text in the user's language. Names in braces stand for values: `At most "
            "{limit} files`."
        )
    )
    values = FilledAnswer(many=True, help_text="The names in braces, in order, each once.")


class ProblemViewSet(ApiViewSet):
    """The error codes of the API."""

    permission_classes = (AllowAny,)

    @extend_schema(summary="List codes of errors", responses=ProblemMeaning(many=True))
    def list(self, request: Request) -> Response:
        """List all codes, with texts in the user's language and the values that are inserted."""
        return Response([_meaning(code) for code in WORDINGS])

    @extend_schema(summary="Explain a code", responses=ProblemMeaning)
    def retrieve(self, request: Request, code: str) -> Response:
        """Explain a code; this is the URL in `type` of an error."""
        if code not in WORDINGS:
            raise Http404
        return Response(_meaning(code))


def _meaning(code: str) -> dict[str, Any]:
    text = WORDINGS[code]
    values = [value._asdict() for value in values_in(code, text)]
    return {"code": code, "text": template(text), "values": values}


class Root(ApiView):
    """URLs of the resources."""

    permission_classes = (AllowAny,)
    schema = None

    def get(self, request: Request) -> Response:
        """Return {name: URL} of the resources that have a list, of the schema and its page."""
        names = {
            "tasks": "api:tasks",
            "views": "api:saved-views",
            "option_presets": "api:option-presets",
            "profiles": "api:profiles",
            "imports": "api:opened-list",
            "shares": "api:shares",
            "devices": "api:workers",
            "pools": "api:pools",
            "options": "api:options",
            "account": "api:me",
            "webhooks": "api:webhooks",
            "problems": "api:problems",
            "documentation": "api:docs",
            "schema": "api:schema",
        }
        return Response(
            {name: request.build_absolute_uri(reverse(route)) for name, route in names.items()}
        )


class NothingHere(ApiView):
    """Return 404 for every other path below `/api/v1/`.

    A GET of an address without its closing slash is redirected to the address with it.
    """

    permission_classes = (AllowAny,)
    schema = None

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        address = f"{request.path}/"
        if request.method in ("GET", "HEAD") and _exists(address):
            query = request.META.get("QUERY_STRING", "")
            return HttpResponsePermanentRedirect(f"{quote(address)}{query and '?' + query}")
        return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise Http404


def _exists(address: str) -> bool:
    try:
        return resolve(address).url_name != "nothing"
    except Resolver404:
        return False


@method_decorator(gzip_page, "dispatch")
class SchemaView(SpectacularJSONAPIView):
    """The OpenAPI schema, generated once per process because it is the same for all users."""

    _schema: Any = None
    _lock = threading.Lock()

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        # drf-spectacular loads its extensions with the first schema, which is not thread-safe
        with SchemaView._lock:
            if SchemaView._schema is None:
                with translation.override("en"):
                    generator: Any = self.generator_class(api_version=None)
                    SchemaView._schema = generator.get_schema(request=None, public=True)
        return Response(
            SchemaView._schema,
            headers={"Content-Disposition": 'inline; filename="web-profile.json"'},
        )


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Show the schema as an interactive page."""
    return render(request, "rest/docs.html")
