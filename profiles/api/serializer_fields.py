"""Serializer fields for responses, and serializers generated from msgspec structs."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, get_type_hints

from msgspec import inspect
from rest_framework import serializers

#: floats may be null, as JSON has neither nan nor infinity
_PLAIN: dict[type, Callable[..., serializers.Field]] = {
    inspect.AnyType: serializers.JSONField,
    inspect.BoolType: serializers.BooleanField,
    inspect.FloatType: partial(serializers.FloatField, allow_null=True),
    inspect.IntType: serializers.IntegerField,
    inspect.StrType: partial(serializers.CharField, allow_blank=True),
}


def number(help_text: str) -> serializers.FloatField:
    """Return a field for a number that a profile may lack; nan and infinity are null too."""
    return serializers.FloatField(allow_null=True, help_text=f"{help_text} Null: unknown.")


def numbers(help_text: str) -> serializers.ListField:
    """Return a field for a list of numbers, each of which may be null."""
    return serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text=f"{help_text} Null: unknown."
    )


def whole(help_text: str) -> serializers.ListField:
    """Return a field for a list of integers."""
    return serializers.ListField(child=serializers.IntegerField(), help_text=help_text)


def texts(help_text: str) -> serializers.ListField:
    """Return a field for a list of texts."""
    return serializers.ListField(child=serializers.CharField(), help_text=help_text)


@cache
def answer_of(cls: type) -> type[serializers.Serializer]:
    """Return a serializer that describes a struct or typed dictionary in the schema.

    Each field is `Annotated` with a description.
    """
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType | inspect.TypedDictType)
    by_name = {field.name: field for field in info.fields}  # msgspec sorts typed dictionaries
    fields = {
        by_name[name].encode_name: _field(by_name[name].type, required=by_name[name].required)
        for name in get_type_hints(cls)
    }
    attributes = {"__doc__": cls.__doc__, "__module__": cls.__module__, **fields}
    return type(_name(cls), (serializers.Serializer,), attributes)


def _name(cls: type) -> str:
    """Return the schema name: `OperatorRow` of a memory plan is `StaticMemoryOperatorRow`."""
    if ".formats." not in cls.__module__:
        return cls.__name__
    folder = cls.__module__.split(".")[-2].removeprefix("chrome_")
    package = folder.title().replace("_", "")
    return cls.__name__ if cls.__name__.startswith(package) else package + cls.__name__


def _field(kind: inspect.Type, **more: Any) -> serializers.Field:
    match kind:
        case inspect.Metadata():
            schema = kind.extra_json_schema or {}
            return _field(kind.type, help_text=schema["description"], **more)
        case inspect.UnionType():
            (known,) = (member for member in kind.types if not isinstance(member, inspect.NoneType))
            return _field(known, **more | {"allow_null": True})
        case inspect.StructType() | inspect.TypedDictType():
            return answer_of(kind.cls)(**more)
        case inspect.VarTupleType() | inspect.ListType():
            item = kind.item_type
            if isinstance(item, inspect.StructType | inspect.TypedDictType):
                return answer_of(item.cls)(many=True, **more)
            return serializers.ListField(child=_field(item), **more)
        case inspect.DictType():
            return serializers.DictField(child=_field(kind.value_type), **more)
        case inspect.LiteralType():
            return serializers.ChoiceField(kind.values, **more)
    return _PLAIN[type(kind)](**more)
