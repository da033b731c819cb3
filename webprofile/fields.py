"""What bodies and questions in addresses are made of: strict fields, and no unknown ones.

What is wrong with a value is told in words of JSON, not of Python's types as DRF does.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

#: of a key in the database
KEY_LIMIT = 2**63 - 1


class QueryInvalid(serializers.ValidationError):
    """Values in the address that cannot be."""


class Bodies(serializers.ListSerializer):
    """Several bodies within one."""

    default_error_messages = {"not_a_list": _("Give a list, in square brackets.")}


class Body(serializers.Serializer):
    """A body; a field that it does not have is an error, since a typo would go unnoticed."""

    default_error_messages = {"invalid": _('Give an object of fields, as in {{"name": value}}.')}

    class Meta:
        list_serializer_class = Bodies

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            strange = [str(name) for name in data if name not in self.fields]
            if strange:
                text = str(_("There is no such field."))
                raise serializers.ValidationError(
                    {name[:60]: [serializers.ErrorDetail(text, "unknown")] for name in strange[:20]}
                )
        return super().to_internal_value(data)


class Query(serializers.Serializer):
    """Parameters of an address; what is wrong with them is answered with 400, not 422."""

    def to_internal_value(self, data: Any) -> Any:
        # DRF would read a QueryDict as an HTML form, where an empty value is none
        lists = {
            name for name, field in self.fields.items() if isinstance(field, serializers.ListField)
        }
        given = {name: data.getlist(name) if name in lists else data[name] for name in data}
        return super().to_internal_value(given)

    def is_valid(self, *, raise_exception: bool = False) -> bool:
        if super().is_valid():
            return True
        if raise_exception:
            raise QueryInvalid(self.errors)
        return False


class Whole(serializers.IntegerField):
    """A whole number in an address."""

    default_error_messages = {"invalid": _("Give a whole number.")}


class Integer(Whole):
    """A whole number; neither "1" nor true nor 1.0."""

    default_error_messages = {"invalid": _("Give a whole number, without quotation marks.")}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": KEY_LIMIT} | kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Key(Integer):
    """The id of a row."""

    default_error_messages = {
        "invalid": _("Give its number, which lists show as id, without quotation marks.")
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"min_value": 1} | kwargs)


class Number(serializers.FloatField):
    """A number; neither "1" nor true."""

    default_error_messages = {"invalid": _("Give a number, without quotation marks.")}

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        try:
            return float(data)
        except OverflowError:
            self.fail("invalid")


class Text(serializers.CharField):
    """A text; no number."""

    default_error_messages = {"invalid": _("Give a text, in quotation marks.")}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class Flag(serializers.BooleanField):
    """true or false, and nothing that means one of them."""

    default_error_messages = {"invalid": _("Give true or false, without quotation marks.")}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class List(serializers.ListField):
    """Values in square brackets."""

    default_error_messages = {"not_a_list": _("Give a list, in square brackets.")}


class Table(serializers.DictField):
    """Names with their values."""

    default_error_messages = {
        "not_a_dict": _('Give names with their values, as in {{"name": value}}.')
    }


class Choice(serializers.ChoiceField):
    """One of some words."""

    default_error_messages = {"invalid_choice": _("“{input}” is none of: {choices}.")}

    def fail(self, key: str, **kwargs: Any) -> NoReturn:
        given = {"input": "", **kwargs}
        super().fail(key, choices=", ".join(filter(None, map(str, self.choices))), **given)


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
    """A row by number or by name: a text is always a name, also one of digits."""

    default_error_messages = {"invalid": _("Give its number, or its name in quotation marks.")}

    def to_internal_value(self, data: Any) -> int | str:
        if isinstance(data, str):
            return str(Text(max_length=254).run_validation(data))
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(Key().run_validation(data))

    def to_representation(self, value: Any) -> Any:
        return value
