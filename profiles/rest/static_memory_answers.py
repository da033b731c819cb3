"""What goes out about a memory plan; `profiles.static_memory.summary` makes it."""

from rest_framework import serializers

from profiles.rest import operator_answers as kinds


def _bytes(text: str) -> serializers.IntegerField:
    return serializers.IntegerField(help_text=f"{text}, bytes.")


class StaticMomentAnswer(serializers.Serializer):
    """Operators one after the other at which most is in use, by the same chunks."""

    first = serializers.IntegerField(help_text="Step of the first of them.")
    last = serializers.IntegerField(help_text="Step of the last of them.")
    chunks = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids, the largest first, 500 at most."
    )
    percent = kinds.numbers("The share of each of these in what is in use, per cent.")
    chunks_left_out = serializers.IntegerField(help_text="How many more there are.")


class StaticOverlapAnswer(serializers.Serializer):
    """Two chunks that are taken at the same time on the same bytes."""

    one = serializers.IntegerField(help_text="Id of a chunk.")
    other = serializers.IntegerField(help_text="Id of the other one.")
    size_bytes = _bytes("What both take")


class StaticOperatorAnswer(serializers.Serializer):
    """An operator of the plan."""

    step = serializers.IntegerField(help_text="Its place in the order of execution, from 0.")
    name = serializers.CharField(allow_blank=True, help_text="As in the file.")
    id = serializers.CharField(allow_blank=True, help_text="As in graph.json; empty without.")
    type = serializers.CharField(allow_blank=True, help_text="The same.")
    makes = serializers.CharField(allow_blank=True, help_text="Name of its first output.")


class StaticChunkAnswer(serializers.Serializer):
    """A piece of memory, and the tensor in it."""

    id = serializers.IntegerField(help_text="As in the file.")
    is_weight = serializers.BooleanField(
        help_text="Whether it is a parameter, constant or input, taken all the time."
    )
    begin = serializers.IntegerField(help_text="Step of the operator that writes it.")
    counted_from = serializers.IntegerField(
        help_text="Step from which it counts: the next one if it is written in place."
    )
    last = serializers.IntegerField(help_text="Step of the last operator that needs it.")
    address = _bytes("Where it begins, from the start of all chunks")
    size_bytes = _bytes("Its size")
    overwrites = serializers.IntegerField(
        help_text="Id of the chunk in whose place it is written, -1 for none."
    )
    shares = serializers.IntegerField(
        help_text="How many others lie on some of its bytes at another time."
    )
    variable = serializers.CharField(
        allow_blank=True, help_text="Name of the tensor; empty where it is not certain."
    )
    shape = serializers.ListField(
        child=serializers.IntegerField(), allow_null=True, help_text="Of the tensor."
    )
    dtype = serializers.CharField(
        allow_null=True, help_text="Of the tensor, where graph.json tells it."
    )
    element_bytes = kinds.number("Bytes of one element, as size and shape tell.")


class StaticMemoryAnswer(serializers.Serializer):
    """A memory plan. Steps are places in the order of execution, from 0."""

    operators_count = serializers.IntegerField(help_text="Operators of the plan.")
    chunks_count = serializers.IntegerField(help_text="Chunks without weights.")
    weights_count = serializers.IntegerField(help_text="Weights.")
    peak_bytes = _bytes("The highest address of a chunk")
    peak_step = serializers.IntegerField(
        help_text="The first step at which a chunk reaches it, -1 without chunks."
    )
    peak_alive_bytes = _bytes("In use at that step")
    weight_bytes = _bytes("All weights")
    most_alive_bytes = _bytes("The most in use at one operator, without weights")
    reached_count = serializers.IntegerField(help_text="At how many operators it is in use.")
    sum_bytes = _bytes("All chunks without weights")
    in_place_count = serializers.IntegerField(help_text="Chunks written in another's place.")
    in_place_bytes = _bytes("Those")
    moments = StaticMomentAnswer(many=True, help_text="When most is in use, the first 50.")
    moments_left_out = serializers.IntegerField(help_text="How many more there are.")
    overlaps = StaticOverlapAnswer(
        many=True, help_text="What no plan of one device may have, the first 20."
    )
    overlaps_count = serializers.IntegerField(help_text="At least so many; 0 if there are none.")
    curve_steps = serializers.ListField(
        child=serializers.IntegerField(), help_text="Steps, at most 5,000."
    )
    curve_bytes = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="The most in use from each of these to the one before the next, bytes.",
    )
    graph = serializers.CharField(
        help_text="What graph.json was: `used`, `none`, `graph_unreadable`, or `not_a_profile` "
        "for that of another graph."
    )
    unplanned = serializers.IntegerField(
        help_text="Tensors whose size is not known before the graph runs; -1 without graph.json."
    )
    operators = StaticOperatorAnswer(many=True, help_text="At most 20,000, else those named here.")
    chunks = StaticChunkAnswer(many=True, help_text="By id; the largest if there are too many.")
    chunks_left_out = serializers.IntegerField(help_text="How many more there are.")
