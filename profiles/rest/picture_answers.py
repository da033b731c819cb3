"""What pictures are drawn from. Operators are named by their rows, times are µs."""

from rest_framework import serializers

from profiles.rest.operator_answers import number, numbers, texts, whole


class _Words(serializers.Serializer):
    """What is said beside a picture."""

    sentence = serializers.CharField(
        help_text="What the picture shows, in the reader's words.", allow_blank=True
    )
    notes = texts("What one must know of it, in the reader's words.")


class OperatorsPicture(serializers.Serializer):
    """What all pictures share."""

    side = serializers.CharField(
        help_text="Whose times: `device`, or `host` for a profile without times on the device."
    )
    names = texts("Name of each operator, by row.")
    types = whole("Type of each operator: a place in `type_names`, or -1.")
    type_names = texts("The types.")
    us = numbers("Self time of each operator, µs.")


class LaneAnswer(serializers.Serializer):
    """A computing node, or a thread of the host."""

    side = serializers.CharField(help_text="`device` or `host`.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    operators = serializers.IntegerField(help_text="How many ran there.")
    wait = number("How long they waited, added up, µs.")
    work = number("How long they computed, added up, µs.")


class TimelinePicture(_Words):
    """When operators ran: bars, column by column."""

    lanes = LaneAnswer(many=True, help_text="The lanes.")
    span = number("From the first start to the last end, µs.")
    lane = whole("Lane of each bar.")
    start = numbers("Where each bar begins, µs.")
    end = numbers("Where it ends, µs.")
    wait = numbers("How much of it is waiting, µs.")
    work = numbers("How much of it is computing, µs.")
    copy = whole("1 if it copies or converts data.")
    count = whole("Operators in each bar.")
    rows = whole("Rows of these operators, bar after bar.")
    merged = serializers.BooleanField(help_text="Whether a bar has several operators.")
    pass_number = serializers.IntegerField(help_text="The profiled pass that is drawn, from 1.")
    passes = serializers.IntegerField(
        help_text="Profiled passes that were merged; tables show medians over them."
    )


class TypesPicture(_Words):
    """Time by type, column by column."""

    types = whole("The type: a place in `type_names`.")
    us = numbers("Time of all its operators, µs.")
    operators = whole("How many they are.")
    total = number("Time of all types, µs.")


class ScopesPicture(_Words):
    """Time by scope of names."""

    tree = serializers.ListField(
        child=serializers.JSONField(),
        help_text="Scopes `{n: name, c: [content]}` and leaves `{r: [rows], t: µs}`.",
    )


class RoofAnswer(serializers.Serializer):
    """A limit of computing."""

    name = serializers.CharField(
        help_text="Data type; empty: the best operator of this profile.", allow_blank=True
    )
    flops = number("Operations per second.")


class RooflinePicture(_Words):
    """Speed against intensity, column by column."""

    rows = whole("The operators that have a place.")
    intensity = numbers("Operations per byte.")
    flops = numbers("Operations per second.")
    us = numbers("Self time, µs.")
    measured = serializers.BooleanField(help_text="Whether the limits are those of the hardware.")
    roofs = RoofAnswer(many=True, help_text="The limits of computing.")
    bytes_s = number("The limit of moving data, bytes per second.")


class OwnerAnswer(serializers.Serializer):
    """A block that is taken at the peak."""

    name = serializers.CharField(help_text="The variable.", allow_blank=True)
    row = serializers.IntegerField(help_text="The operator that writes it, or -1.")
    bytes = number("Its size, bytes.")
    kind = serializers.CharField(help_text="`persistent`, `planned` or `estimated`.")
    first = serializers.IntegerField(help_text="The first step at which it is taken.")
    last = serializers.IntegerField(help_text="The last one.")


class MemoryPicture(_Words):
    """Memory over the order of execution, column by column."""

    device = serializers.CharField(help_text="Such as `cpu0`.", allow_blank=True)
    devices = texts("All that have blocks.")
    rows = whole("The operator of each step, or -1.")
    persistent = number("Bytes that are taken all the time.")
    planned = whole("Bytes of the memory plan at each step.")
    estimated = whole("Bytes that were estimated, at each step.")
    peak = serializers.IntegerField(help_text="The step with most bytes, or -1.")
    peak_bytes = number("How many these are.")
    owners = OwnerAnswer(many=True, help_text="The largest blocks of that step.")


class CumulativePicture(_Words):
    """The running share of the slowest operators, column by column."""

    rows = whole("The operators, the slowest first.")
    us = numbers("Self time, µs.")
    share = numbers("Share of the total of this one and those before it.")
    milestones = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="`[share, number of operators that reach it]`.",
    )


class StaticMemoryPicture(_Words):
    """Tensors of a memory plan over steps, column by column. Steps are places in the order of
    execution, from 0.
    """

    steps = serializers.IntegerField(help_text="Operators of the plan.")
    peak = number("The highest address of a tensor, bytes.")
    most = number("The most in use at one step, bytes.")
    moment = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="First and last step at which most is in use; null without tensors.",
    )
    id = whole("Id of each chunk, as in the file.")
    to = whole("The step after the last one at which it is alive.")
    low = whole("Its lowest address, bytes.")
    size = whole("Its size, bytes.")
    in_place = whole("1 if it is written in another one's place.")
    at_peak = whole("1 if it is alive when most is in use.")
    name = texts("Its tensor; empty where it is not certain.")
    row = whole("The operator that writes it, or -1.")
    names = texts("Names of operators.")
    first = whole("The operator that writes it: a place in `names`.")
    last = whole("The last operator that needs it: a place in `names`.")
    curve = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="Steps, and the bytes in use from each to the one before the next.",
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        """`from` is a keyword of Python."""
        found = super().get_fields()
        found["from"] = whole("The first step at which each chunk is alive.")
        return found
