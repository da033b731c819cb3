"""The schema: what every operation shares, so that none forgets to say it."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny

from webprofile.rest.description import ANSWERS, DESCRIPTION, PARTS, TAGS
from webprofile.rest.fields import Body, Query
from webprofile.rest.permissions import NoAccessToken, scope_wanted
from webprofile.rest.problems import MEDIA_TYPE

_View = TypeVar("_View", bound=Callable[..., Any])
Answers = Mapping[Any, Any]


class FieldProblem(serializers.Serializer):
    """What is wrong with one field."""

    field = serializers.CharField(
        help_text="The field's place in the request, such as `files.0.md5`; empty for the whole.",
        allow_blank=True,
    )
    code = serializers.CharField(help_text="Stable code of what is wrong, such as `required`.")
    detail = serializers.CharField(help_text="The same in the reader's words.")


class Problem(serializers.Serializer):
    """Problem details (RFC 9457)."""

    type = serializers.URLField(help_text="Address that explains `code`.")
    title = serializers.CharField(help_text="What kind of error it is, in the reader's words.")
    status = serializers.IntegerField(help_text="The HTTP status.", min_value=400, max_value=599)
    detail = serializers.CharField(help_text="What is wrong and the next step, in words.")
    code = serializers.CharField(help_text="Stable code of the error; texts may change.")
    field = serializers.CharField(
        help_text="The field at fault, empty if there is not one.", allow_blank=True
    )
    errors = FieldProblem(  # type: ignore[assignment]
        many=True, help_text="Every field that is wrong, for code `invalid`."
    )


def documented(
    summary: str,
    *,
    answers: Answers,
    errors: Mapping[int, Sequence[str]] | None = None,
    body: type[Body] | None = None,
    query: type[Query] | None = None,
    **more: Any,
) -> Callable[[_View], _View]:
    """Describe an operation; its docstring is the description.

    answers: by status, a serializer, `OpenApiResponse`, or None for an empty body; a key may be
    (status, media type); errors: codes by status; more: `parameters`, `operation_id`, `examples` of
    drf-spectacular
    """
    responses: dict[Any, Any] = dict(answers)
    for status, codes in (errors or {}).items():
        responses[status, MEDIA_TYPE] = _problem(status, codes)
    parameters: list[Any] = [*more.pop("parameters", []), *([query] if query else [])]
    return extend_schema(
        summary=summary, request=body, responses=responses, parameters=parameters, **more
    )


def redirect_to(what: str) -> dict[int, Any]:
    """The answer of a download: where the file lies, for some minutes."""
    return {302: OpenApiResponse(description=f"`Location` is {what}, for some minutes.")}


def header(name: str, description: str, **more: Any) -> OpenApiParameter:
    """A header of the request."""
    return OpenApiParameter(name, str, OpenApiParameter.HEADER, description=description, **more)


def _problem(status: int, codes: Iterable[str]) -> OpenApiResponse:
    return OpenApiResponse(Problem, description=_words(status, codes))


def _words(status: int, codes: Iterable[str]) -> str:
    named = ", ".join(f"`{code}`" for code in codes)
    return f"{HTTPStatus(status).phrase}: {named}."


def _with_codes(text: str, codes: Iterable[str]) -> str:
    """The words of an operation's own errors, with those that any may end with."""
    more = [f", `{code}`" for code in codes if f"`{code}`" not in text]
    return f"{text.removesuffix('.')}{''.join(more)}."


class Schema(AutoSchema):
    """Adds to each operation the errors that any may end with, its tag and its scope."""

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").split("/")[0]]

    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self._is_public() else super().get_auth()

    view: Any

    def get_description(self) -> str:  # type: ignore[override]
        text = super().get_description()
        if self._is_public():
            return f"{text}\n\nNobody has to be logged in."
        if NoAccessToken in self.view.permission_classes:
            return f"{text}\n\nNot with an access token."
        return (
            f"{text}\n\nAn access token needs the scope `{scope_wanted(self.view, self.method)}`."
        )

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        answers = operation["responses"]
        schema = self.resolve_serializer(Problem, "response").ref
        for status, codes in self._usual_errors().items():
            if own := answers.get(str(status)):
                own["description"] = _with_codes(own["description"], codes)
            else:
                content = {MEDIA_TYPE: {"schema": schema}}
                answers[str(status)] = {"content": content, "description": _words(status, codes)}
        operation["responses"] = dict(sorted(answers.items()))
        return operation

    def _is_public(self) -> bool:
        return AllowAny in self.view.permission_classes

    def _usual_errors(self) -> dict[int, list[str]]:
        errors = {
            400: ["malformed"],
            404: ["not_found"],
            406: ["not_acceptable"],
            429: ["throttled"],
            503: ["storage_unreachable"],
        }
        if self.method == "GET":
            errors[400] += ["query_invalid", "query_unknown"]
            if getattr(self.view, "paginator", None) is not None:
                errors[400] += ["limit_bad", "cursor_bad"]
        if not self._is_public():
            errors[401] = ["not_authenticated", "token_invalid"]
            errors[403] = ["scope_missing", "token_not_here", "csrf_failed"]
        if self.method in {"POST", "PUT", "PATCH"}:
            errors |= {413: ["body_too_large"], 415: ["media_type_unknown"], 422: ["invalid"]}
        return errors

    def _map_serializer(self, serializer: Any, direction: Any, *args: Any, **kwargs: Any) -> Any:
        schema = super()._map_serializer(serializer, direction, *args, **kwargs)
        if isinstance(serializer, Body) and "properties" in schema:
            schema["additionalProperties"] = False
        for each in schema.get("properties", {}).values():
            if {} in each.get("oneOf", []):  # "anything, or null", which null would fit twice
                del each["oneOf"]
            if direction == "response":  # Python's expressions know more letters than JSON Schema's
                each.pop("pattern", None)
        return schema


class AccessTokenScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.rest.authentication.AccessTokenAuthentication"
    name = "accessToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An access token, `mwp_...`, with its scopes.",
        }


class JwtScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.rest.authentication.JwtAuthentication"
    name = "jwt"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "The `access` part of what `/api/v1/auth/token/` answers.",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.rest.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The cookie of the pages; changes also need the header `X-CSRFToken`.",
        }


def only_v1(endpoints: list[Any], **kwargs: Any) -> list[Any]:
    """Leave out what is not below `/api/v1/`."""
    return [each for each in endpoints if each[0].startswith("/api/v1/")]


def describe(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Put the text that holds for all operations in front."""
    result["info"]["description"] = DESCRIPTION
    # drf-spectacular's own, for choices that may be null
    if null := result["components"]["schemas"].get("NullEnum"):
        null["description"] = "No value."
    used = set()
    for path, operations in result["paths"].items():
        parts = _parts(path)
        for each in operations.values():
            used |= set(each["tags"])
            for parameter in each.get("parameters", []):
                if parameter["in"] == "path":
                    parameter["description"] = parts[parameter["name"]]
            for status, answer in each["responses"].items():
                answer["description"] = answer["description"] or ANSWERS[status]
    result["tags"] = [
        {"name": name, "description": text} for name, text in TAGS.items() if name in used
    ]
    return result


def _parts(path: str) -> dict[str, str]:
    """What each part of an address is. Raises KeyError for one that nobody described."""
    pieces = path.strip("/").split("/")
    return {
        piece.strip("{}"): PARTS[f"{before}/{piece}"]
        for before, piece in itertools.pairwise(pieces)
        if piece.startswith("{")
    }
