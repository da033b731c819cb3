"""Serializers generated from msgspec structs, typed dictionaries and dataclasses."""

from collections.abc import Callable
from dataclasses import is_dataclass
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
_OBJECTS = inspect.StructType | inspect.TypedDictType | inspect.DataclassType


@cache
def answer_of(cls: type) -> type[serializers.Serializer]:
    """Return a serializer that describes a struct, dictionary or dataclass in the schema.

    Each field is `Annotated` with a description.
    """
    info = inspect.type_info(cls)
    assert isinstance(info, _OBJECTS)
    by_name = {field.name: field for field in info.fields}  # msgspec sorts typed dictionaries
    fields = {
        by_name[name].encode_name: _field(by_name[name].type, required=by_name[name].required)
        for name in get_type_hints(cls)
    }
    attributes = {"__doc__": cls.__doc__, "__module__": cls.__module__, **fields}
    return type(_name(cls), (serializers.Serializer,), attributes)


def _name(cls: type) -> str:
    """Return the schema name: `OperatorRow` of a memory plan is `StaticMemoryOperatorRow`, and the
    dataclass `Coverage` is `CoverageAnswer`.
    """
    if is_dataclass(cls):
        return f"{cls.__name__}Answer"
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
        case inspect.StructType() | inspect.TypedDictType() | inspect.DataclassType():
            return answer_of(kind.cls)(**more)
        case inspect.VarTupleType() | inspect.ListType():
            item = kind.item_type
            if isinstance(item, _OBJECTS):
                return answer_of(item.cls)(many=True, **more)
            return serializers.ListField(child=_field(item), **more)
        case inspect.DictType():
            return serializers.DictField(child=_field(kind.value_type), **more)
        case inspect.LiteralType():
            return serializers.ChoiceField(kind.values, **more)
    return _PLAIN[type(kind)](**more)
