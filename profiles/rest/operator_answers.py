"""What goes out about operators; single fields are those of every export."""

from rest_framework import serializers

from profiles.exporting.fields import FIELDS, Field
from profiles.parsers.columns import Side


def number(help_text: str) -> serializers.FloatField:
    """A number that a profile may not tell; nan and infinity are null too."""
    return serializers.FloatField(allow_null=True, help_text=f"{help_text} Null: unknown.")


def numbers(help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.FloatField(allow_null=True), help_text=f"{help_text} Null: unknown."
    )


def whole(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.IntegerField(), help_text=help_text)


def texts(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), help_text=help_text)


def _field(field: Field) -> serializers.Field:
    help_text = f"{field.help} Null: unknown."
    if field.kind == "text":
        return serializers.CharField(help_text=field.help, allow_null=True)
    if field.kind == "json":
        return serializers.JSONField(allow_null=True, help_text=help_text)
    if field.kind == "count":
        return serializers.IntegerField(allow_null=True, help_text=help_text)
    return serializers.FloatField(allow_null=True, help_text=help_text)


class _SideAnswer(serializers.Serializer):
    """Times of one operator on one side."""

    side: Side

    def get_fields(self) -> dict[str, serializers.Field]:
        start = f"{self.side}."
        found = {
            field.key.removeprefix(start): _field(field)
            for field in FIELDS
            if field.key.startswith(start)
        }
        return found | {"passes_s": numbers("Self time in each pass, s.")}


class DeviceTimesAnswer(_SideAnswer):
    """Times of one operator on the device."""

    side = "device"


class HostTimesAnswer(_SideAnswer):
    """Times of one operator on the host."""

    side = "host"


class OperatorAnswer(serializers.Serializer):
    """One operator."""

    device = DeviceTimesAnswer(help_text="On the device.")
    host = HostTimesAnswer(help_text="On the host.")

    def get_fields(self) -> dict[str, serializers.Field]:
        own = {field.key: _field(field) for field in FIELDS if "." not in field.key}
        return own | super().get_fields()


class OperatorRow(OperatorAnswer):
    """One operator in a table."""

    place = serializers.IntegerField(help_text="Its place in the table, from 0.")
    self_s = number(
        "Self time in this table, s: of its side, to the end or the first kernel as asked."
    )
    share = number("`self_s` / total of the side.")
    cumulative_s = number("`self_s` of this row and those above it, s.")
    cumulative_share = number("The same as a share of the total.")
    is_unstable = serializers.BooleanField(
        help_text="Whether its times differ much from pass to pass."
    )


class GroupRow(serializers.Serializer):
    """Operators of one type, or all of them."""

    type = serializers.CharField(help_text="The operators' type; `all` for all of them.")
    operators = serializers.IntegerField(help_text="How many they are.")
    time_s = number("The aggregate of their self times on the side that was asked for, s.")
    share = number("`time_s` / total of the side.")
    cumulative_s = number("`time_s` of this row and those above it, s.")
    computation_flo = number("The aggregate of their operations of one execution.")
    flops_per_s = number("`computation_flo` / `time_s`, operations per second.")
    memory_bytes = number("The aggregate of the bytes of their inputs and outputs.")
    bandwidth_bytes_per_s = number("`memory_bytes` / `time_s`, bytes per second.")


class TableAnswer(serializers.Serializer):
    """A window of a table."""

    side = serializers.CharField(help_text="Whose times: `device` or `host`.")
    total = serializers.IntegerField(help_text="Rows of the whole table.")
    offset = serializers.IntegerField(help_text="Place of the first row here.")
    place = serializers.IntegerField(
        allow_null=True, help_text="Place of the operator `around`; null: not in the table."
    )
    totals = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="`device_s` and `host_s`: of all operators, also of those left out, s.",
    )
    said = serializers.CharField(help_text="How many rows there are, in words.")
    operators = OperatorRow(many=True, help_text="The rows; none if groups were asked for.")
    groups = GroupRow(many=True, help_text="The groups, if `agg` asked for them.")


class VariableAnswer(serializers.Serializer):
    """What an operator reads or makes."""

    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    shape = serializers.CharField(
        help_text="Such as `{1,3,224,224}`; empty: unknown.", allow_blank=True
    )
    dtype = serializers.CharField(help_text="Its data type; empty: unknown.", allow_blank=True)


class OperatorDetail(OperatorAnswer):
    """One operator with what surrounds it."""

    device_place = serializers.IntegerField(
        allow_null=True, help_text="Place by self time on the device, from 0; null: not timed."
    )
    host_place = serializers.IntegerField(
        allow_null=True, help_text="Place by self time on the host, from 0; null: not timed."
    )
    is_unstable_on_device = serializers.BooleanField(
        help_text="Whether its times differ much from pass to pass."
    )
    is_unstable_on_host = serializers.BooleanField(help_text="The same on the host.")
    inputs = VariableAnswer(many=True, help_text="What it reads, the first 40.")
    outputs = VariableAnswer(many=True, help_text="What it makes, the first 40.")
