"""OpenAPI schema: add the shared errors, the token scope and descriptions to every operation."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.permissions import AllowAny

from webprofile.api.description import ANSWERS, PATH_PARAMETERS
from webprofile.api.permissions import NoAccessToken, required_scope
from webprofile.api.problems import MEDIA_TYPE
from webprofile.fields import Body


class FieldProblem(serializers.Serializer):
    """What is wrong with one field."""

    field = serializers.CharField(
        help_text="The field's place in the request, such as `files.0.md5`; empty for the whole.",
        allow_blank=True,
    )
    code = serializers.CharField(help_text="Stable code of what is wrong, such as `required`.")
    detail = serializers.CharField(help_text="The same in the user's language.")


class Problem(serializers.Serializer):
    """Problem details (RFC 9457)."""

    type = serializers.URLField(help_text="URL that explains `code`.")
    title = serializers.CharField(help_text="Title of the error in the user's language.")
    status = serializers.IntegerField(help_text="The HTTP status.", min_value=400, max_value=599)
    detail = serializers.CharField(help_text="Description of the error and the next step.")
    code = serializers.CharField(help_text="Stable code of the error; texts may change.")
    field = serializers.CharField(
        help_text="The field at fault, empty if there is not one.", allow_blank=True
    )
    errors = FieldProblem(  # type: ignore[assignment]
        many=True, help_text="Every field that is wrong, for code `invalid`."
    )


def problems(errors: Mapping[int, Iterable[str]]) -> dict[tuple[int, str], OpenApiResponse]:
    """Return error codes by status in the form of the `responses` of `extend_schema`.

    `Schema` adds the errors that every operation can return.
    """
    return {
        (status, MEDIA_TYPE): OpenApiResponse(Problem, description=_described(status, codes))
        for status, codes in errors.items()
    }


#: `responses` of a download, which redirects to a presigned URL
REDIRECT = {
    302: OpenApiResponse(description="`Location` is the file in storage, for some minutes.")
}


def _described(status: int, codes: Iterable[str]) -> str:
    named = ", ".join(f"`{code}`" for code in codes)
    return f"{HTTPStatus(status).phrase}: {named}."


class Schema(AutoSchema):
    """Add to each operation the errors that every operation can return, and the token scope."""

    view: Any

    def get_operation_id(self) -> str:
        """Name an action of a viewset `cancel_tasks` instead of `cancel_tasks_create`."""
        if action := getattr(self.view, "action", ""):
            return f"{self.get_tags()[0]}_{action}"
        return str(super().get_operation_id())

    def get_auth(self) -> list[dict[str, Any]]:
        return [] if self._is_public() else super().get_auth()

    def get_description(self) -> str:  # type: ignore[override]
        text = super().get_description()
        if self._is_public():
            return f"{text}\n\nNobody has to be logged in."
        if NoAccessToken in self.view.permission_classes:
            return f"{text}\n\nNot with an access token."
        return (
            f"{text}\n\nAn access token needs the scope `{required_scope(self.view, self.method)}`."
        )

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        before = {name: part for part, name in re.findall(r"(?=/([^/]+)/\{(\w+)\}/)", self.path)}
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                name = parameter["name"]
                parameter["description"] = PATH_PARAMETERS[f"{before[name]}/{{{name}}}"]
        answers = operation["responses"]
        for status, answer in answers.items():
            answer["description"] = answer["description"] or ANSWERS[status]
        content = {MEDIA_TYPE: {"schema": self.resolve_serializer(Problem, "response").ref}}
        for status, codes in self._usual_errors().items():
            if own := answers.get(str(status)):
                more = [f", `{code}`" for code in codes if f"`{code}`" not in own["description"]]
                own["description"] = f"{own['description'].removesuffix('.')}{''.join(more)}."
            else:
                description = _described(status, codes)
                answers[str(status)] = {"content": content, "description": description}
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
            503: ["redis_unreachable", "storage_unreachable"],
        }
        if self.method == "GET":
            errors[400] += ["query_invalid", "query_unknown"]
            if getattr(self.view, "paginator", None) is not None:
                errors[400] += ["limit_bad", "cursor_bad"]
        if not self._is_public():
            errors[401] = ["not_authenticated", "token_invalid"]
            errors[403] = ["scope_missing", "token_not_here", "csrf_failed"]
        if self.method in {"POST", "PUT", "PATCH"}:
            errors[400] += ["number_large"]
            errors |= {413: ["body_too_large"], 415: ["media_type_unknown"], 422: ["invalid"]}
        return errors

    def _map_serializer(self, serializer: Any, direction: Any, *args: Any, **kwargs: Any) -> Any:
        schema = super()._map_serializer(serializer, direction, *args, **kwargs)
        if isinstance(serializer, Body) and "properties" in schema:
            schema["additionalProperties"] = False
        for field in schema.get("properties", {}).values():
            if {} in field.get("oneOf", []):  # {} already matches null, so two branches would match
                del field["oneOf"]
            if direction == "response":  # character classes of Python match more than JSON Schema's
                field.pop("pattern", None)
        return schema


class AccessTokenScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.api.authentication.AccessTokenAuthentication"
    name = "accessToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An access token, `mwp_...`, with its scopes.",
        }


class JwtScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.api.authentication.JwtAuthentication"
    name = "jwt"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": "The `access` part of what `/api/v1/auth/token/` answers.",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "webprofile.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "The cookie of the pages; changes also need the header `X-CSRFToken`.",
        }


def describe_null(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Add a description to drf-spectacular's `NullEnum` component of nullable choices."""
    if null := result["components"]["schemas"].get("NullEnum"):
        null["description"] = "No value."
    return result


def share_errors(result: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Move error responses that several operations return to components.

    Most operations return the same ten errors, which are a third of the schema.
    """
    uses: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for methods in result["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if status >= "400":
                    text = json.dumps([status, answer], sort_keys=True)
                    uses.setdefault(text, []).append((operation["responses"], status))
    shared = result["components"].setdefault("responses", {})
    counts: Counter[str] = Counter()
    for places in uses.values():
        if len(places) < 2:
            continue
        answers, status = places[0]
        counts[status] += 1
        name = f"{HTTPStatus(int(status)).name.title().replace('_', '')}{counts[status]}"
        shared[name] = answers[status]
        for answers, status in places:
            answers[status] = {"$ref": f"#/components/responses/{name}"}
    return result
