"""Filters in query parameters; invalid values and unknown parameters are rejected."""

import datetime
from typing import Any

import django_filters
from django import forms
from django.db.models import QuerySet
from django_filters.fields import IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend
from django_filters.utils import translate_validation
from drf_spectacular.drainage import set_override
from rest_framework.exceptions import ErrorDetail
from rest_framework.request import Request

from webprofile.errors import DomainError
from webprofile.fields import KEY_LIMIT, QueryInvalid


class KeyFilter(django_filters.NumberFilter):
    """The id of a row."""

    field_class = forms.IntegerField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, min_value=1, max_value=KEY_LIMIT, **kwargs)
        _shaped(self, {"type": "integer", "minimum": 1, "maximum": KEY_LIMIT})

    def get_max_validator(self) -> None:
        """Return None: the form field has its own maximum."""


class TextFilter(django_filters.CharFilter):
    """A text of at most `max_length` characters, taken as written: `"c "` is not `"c"`."""

    def __init__(self, *args: Any, max_length: int, **kwargs: Any) -> None:
        super().__init__(*args, max_length=max_length, strip=False, **kwargs)
        shape = {"type": "string", "maxLength": max_length, "pattern": r"^[^\x00]*$"}
        _shaped(self, shape)


class MomentField(IsoDateTimeField):
    """A time that can be converted to UTC, which fails at the limits of the calendar."""

    def to_python(self, value: Any) -> datetime.datetime | None:
        try:
            moment: datetime.datetime | None = super().to_python(value)
            return moment and moment.astimezone(datetime.UTC)
        except OverflowError as error:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    """A time in ISO 8601."""

    field_class = MomentField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _shaped(self, {"type": "string", "format": "date-time"})


class FilterBackend(DjangoFilterBackend):
    """Apply the view's `filterset_class`.

    Raises DomainError query_unknown for an unknown parameter and QueryInvalid for a bad value.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        known = set(filterset.filters) if filterset else set()
        if view.paginator is not None:
            known |= {"cursor", "limit"}
        for name in request.query_params:
            if name not in known:
                raise DomainError("query_unknown", field=name[:60], status=400, name=name[:60])
        if filterset is None:
            return queryset
        _reject_empty(filterset, request)
        if not filterset.is_valid():
            raise QueryInvalid(translate_validation(filterset.errors).detail)
        return filterset.qs


def _shaped(filter_: django_filters.Filter, shape: dict[str, Any]) -> None:
    """Set the OpenAPI schema of a filter; with a schema, drf-spectacular ignores its help text."""
    description = str(filter_.extra.get("help_text", ""))
    set_override(filter_, "field", shape | {"description": description})


def _reject_empty(filterset: Any, request: Request) -> None:
    """Raise QueryInvalid for empty values, except of text filters; django-filter ignores them."""
    empty = [
        name
        for name, filter_ in filterset.filters.items()
        if request.query_params.get(name) == "" and not isinstance(filter_, TextFilter)
    ]
    if empty:
        text = forms.Field.default_error_messages["required"]
        raise QueryInvalid({name: [ErrorDetail(str(text), "required")] for name in empty})
