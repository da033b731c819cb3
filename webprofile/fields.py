"""Strict serializers and fields of API request bodies and query parameters.

Unknown fields are rejected. Error messages use JSON terms, while those of DRF use Python types.
"""

import math
from collections.abc import Mapping
from typing import Any, NoReturn, cast

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

#: largest primary key
KEY_LIMIT = 2**63 - 1
#: largest number of other fields by default; sums of such numbers are finite
NUMBER_LIMIT = 1e18


class QueryInvalid(serializers.ValidationError):
    """Invalid query parameters; the response has status 400."""


class Bodies(serializers.ListSerializer):
    """A list of nested bodies."""

    default_error_messages = {"not_a_list": _("Expected a list, in square brackets.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["child"].allow_null = False  # DRF copies `allow_null` of the list to its items
        super().__init__(*args, **kwargs)


class _Read(serializers.Serializer):
    @classmethod
    def read(cls, data: Any) -> dict[str, Any]:
        """Return the validated data. Raises ValidationError, or QueryInvalid for a query."""
        body = cls(data=data)
        body.is_valid(raise_exception=True)
        return cast(dict[str, Any], body.validated_data)


class Body(_Read):
    """A request body; unknown fields are errors, so that a typo does not go unnoticed."""

    default_error_messages = {"invalid": _('Expected an object, such as {{"name": value}}.')}

    class Meta:
        list_serializer_class = Bodies

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = [str(name) for name in data if name not in self.fields]
            if unknown:
                text = str(_("Unknown field."))
                raise serializers.ValidationError(
                    {name[:60]: [serializers.ErrorDetail(text, "unknown")] for name in unknown[:20]}
                )
        return super().to_internal_value(data)


class QueryParameters(_Read):
    """Query parameters; errors raise `QueryInvalid` (status 400 instead of 422).

    A parameter such as `from`, a keyword of Python, is the attribute `from_`.
    """

    def get_fields(self) -> dict[str, serializers.Field]:
        return {name.removesuffix("_"): field for name, field in super().get_fields().items()}

    def to_internal_value(self, data: Any) -> Any:
        # DRF would read a QueryDict as an HTML form, where an empty value is none
        lists = {
            name for name, field in self.fields.items() if isinstance(field, serializers.ListField)
        }
        values = {name: data.getlist(name) if name in lists else data[name] for name in data}
        return super().to_internal_value(values)

    def is_valid(self, *, raise_exception: bool = False) -> bool:
        if super().is_valid():
            return True
        if raise_exception:
            raise QueryInvalid(self.errors)
        return False


class Whole(serializers.IntegerField):
    """An integer from 0 to 2^63 - 1 in a query parameter, as text."""

    default_error_messages = {"invalid": _("Expected an integer.")}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": KEY_LIMIT} | kwargs)


class Integer(Whole):
    """An integer from 0 to 2^63 - 1; rejects "1", true and 1.0."""

    default_error_messages = {"invalid": _("Expected an integer, without quotation marks.")}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Key(Integer):
    """The id of a row."""

    default_error_messages = {
        "invalid": _("Expected an ID (the field “id” in lists), without quotation marks.")
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 1} | kwargs)


class Real(serializers.FloatField):
    """A finite number in a query parameter, as text."""

    default_error_messages = {"invalid": _("Expected a number.")}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": -NUMBER_LIMIT, "max_value": NUMBER_LIMIT} | kwargs)

    def to_internal_value(self, data: Any) -> float:
        number = float(super().to_internal_value(data))
        if not math.isfinite(number):  # NaN passes every comparison with a limit
            self.fail("invalid")
        return number


class Number(Real):
    """A finite number; rejects "1" and true."""

    default_error_messages = {"invalid": _("Expected a number, without quotation marks.")}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            return super().to_internal_value(data)
        except OverflowError:
            self.fail("invalid")


class Text(serializers.CharField):
    """A string; rejects numbers."""

    default_error_messages = {"invalid": _("Expected a string, in quotation marks.")}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class OptionalText(Text):
    """A string that is empty by default."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(default="", allow_blank=True, **kwargs)


class Flag(serializers.BooleanField):
    """A boolean; rejects other values such as 1 and "true"."""

    default_error_messages = {"invalid": _("Expected true or false, without quotation marks.")}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class List(serializers.ListField):
    """An array."""

    default_error_messages = {"not_a_list": _("Expected a list, in square brackets.")}


class Table(serializers.DictField):
    """An object with arbitrary keys."""

    default_error_messages = {
        "not_a_dict": _('Expected an object with names and values, such as {{"name": value}}.')
    }


class Choice(serializers.ChoiceField):
    """One of several strings."""

    default_error_messages = {"invalid_choice": _("“{input}” is not one of: {choices}.")}

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        values = {"input": "", **kwargs}
        super().fail(key, choices=", ".join(filter(None, map(str, self.choices))), **values)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "integer", "minimum": 1, "maximum": KEY_LIMIT},
            {
                "type": "string",
                "minLength": 1,
                "maxLength": 254,
                "pattern": r"^[^\x00]*\S[^\x00]*$",
            },
        ]
    }
)
class Named(serializers.Field):
    """A row by id or by name; a string is always a name, even if it consists of digits."""

    default_error_messages = {"invalid": _("Expected an ID, or a name in quotation marks.")}

    def to_internal_value(self, data: Any) -> int | str:
        if isinstance(data, str):
            return str(Text(max_length=254).run_validation(data))
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(Key().run_validation(data))

    def to_representation(self, value: Any) -> Any:
        return value
