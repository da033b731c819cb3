"""What goes out about graphs."""

from rest_framework import serializers

from profiles.rest.operator_answers import number


class NodeAnswer(serializers.Serializer):
    """An operator that runs."""

    node = serializers.IntegerField(help_text="Its place in the order of execution, from 0.")
    row = serializers.IntegerField(
        allow_null=True, help_text="Its row in tables; null: it has neither times nor footprint."
    )
    id = serializers.CharField(help_text="The number that MegEngine gave it.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    type = serializers.CharField(help_text="Its type.", allow_blank=True)
    params = serializers.JSONField(
        allow_null=True, help_text="Its parameters by name; null: unknown."
    )
    device_s = number("Self time on the device, s.")
    host_s = number("Self time on the host, s.")
    outputs = serializers.ListField(
        child=serializers.CharField(), help_text="Ids of the variables that it makes."
    )


class EdgeAnswer(serializers.Serializer):
    """A variable that a node reads."""

    variable = serializers.CharField(help_text="Its id.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    from_node = serializers.IntegerField(
        allow_null=True, help_text="The node that makes it; null: it is a constant, or fed."
    )
    to_node = serializers.IntegerField(help_text="The node that reads it.")
    slot = serializers.IntegerField(help_text="Its place among the inputs of `to_node`, from 0.")
    is_constant = serializers.BooleanField(
        help_text="Whether it has its value before the run: a weight, or a shape."
    )
    shape = serializers.JSONField(
        allow_null=True, help_text="Elements along each axis; null: unknown."
    )
    dtype = serializers.CharField(allow_null=True, help_text="Its data type; null: unknown.")


class GraphAnswer(serializers.Serializer):
    """A window of the executed graph: nodes in order of execution, and all that they read."""

    total = serializers.IntegerField(help_text="Nodes of the whole graph.")
    offset = serializers.IntegerField(help_text="The first node here.")
    nodes = NodeAnswer(many=True, help_text="The nodes.")
    edges = EdgeAnswer(many=True, help_text="What these nodes read, also from others.")
    left_out = serializers.IntegerField(help_text="Operators that never run.")
    problems = serializers.ListField(
        child=serializers.CharField(), help_text="Sections of the raw file that are damaged."
    )
