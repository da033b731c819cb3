"""Filters in the address: what is wrong or unknown is refused, never passed over."""

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
        """The field has one of its own."""


class TextFilter(django_filters.CharFilter):
    """A text of at most `max_length` characters, taken as written: `"c "` is not `"c"`."""

    def __init__(self, *args: Any, max_length: int, **kwargs: Any) -> None:
        super().__init__(*args, max_length=max_length, strip=False, **kwargs)
        shape = {"type": "string", "maxLength": max_length, "pattern": r"^[^\x00]*$"}
        _shaped(self, shape)


class MomentField(IsoDateTimeField):
    """A moment that exists in UTC, too, which the ends of the calendar of other zones do not."""

    def to_python(self, value: Any) -> datetime.datetime | None:
        try:
            moment: datetime.datetime | None = super().to_python(value)
            return moment and moment.astimezone(datetime.UTC)
        except OverflowError as error:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    """A moment in ISO 8601."""

    field_class = MomentField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _shaped(self, {"type": "string", "format": "date-time"})


class FilterBackend(DjangoFilterBackend):
    """django-filter by the view's `filterset_class`."""

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
        _check_given(filterset, request)
        if not filterset.is_valid():
            raise QueryInvalid(translate_validation(filterset.errors).detail)
        return filterset.qs


def _shaped(each: django_filters.Filter, shape: dict[str, Any]) -> None:
    """Say what the schema says of a filter, which would pass over the help beside a shape."""
    set_override(each, "field", shape | {"description": str(each.extra.get("help_text", ""))})


def _check_given(filterset: Any, request: Request) -> None:
    """An empty value is none, except of any text; django-filter would pass it over."""
    empty = [
        name
        for name, each in filterset.filters.items()
        if request.query_params.get(name) == "" and not isinstance(each, TextFilter)
    ]
    if empty:
        text = forms.Field.default_error_messages["required"]
        raise QueryInvalid({name: [ErrorDetail(str(text), "required")] for name in empty})
