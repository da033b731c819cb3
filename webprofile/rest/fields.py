"""What bodies and questions in addresses are made of: strict fields, and no unknown ones."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

#: of a key in the database
KEY_LIMIT = 2**63 - 1


class Body(serializers.Serializer):
    """A body; a field that it does not have is an error, since a typo would go unnoticed."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            strange = [str(name) for name in data if name not in self.fields]
            if strange:
                text = _("There is no such field.")
                raise serializers.ValidationError(
                    {name[:60]: [serializers.ErrorDetail(text, "unknown")] for name in strange[:20]}
                )
        return super().to_internal_value(data)


class Query(serializers.Serializer):
    """The question of an address; all of its values are texts."""


class Integer(serializers.IntegerField):
    """A whole number; neither "1" nor true nor 1.0."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": KEY_LIMIT} | kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Key(Integer):
    """The id of a row."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 1} | kwargs)


class Number(serializers.FloatField):
    """A number; neither "1" nor true."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            return float(data)
        except OverflowError:
            self.fail("invalid")


class Text(serializers.CharField):
    """A text; no number."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Flag(serializers.BooleanField):
    """true or false, and nothing that means one of them."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


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
    """A row by number or by name."""

    def to_internal_value(self, data: Any) -> int | str:
        if isinstance(data, str):
            return str(Text(max_length=254).run_validation(data))
        return int(Key().run_validation(data))

    def to_representation(self, value: Any) -> Any:
        return value
