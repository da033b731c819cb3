"""What goes out about the trace of a dynamic graph; `profiles.traces.summary` makes it."""

from rest_framework import serializers

from profiles.rest import operator_answers as kinds


class TraceLaneAnswer(serializers.Serializer):
    """One thread or device."""

    name = serializers.CharField(help_text="As in the file.")
    kind = serializers.CharField(help_text="`host`, `worker`, `device` or `other`.")
    spans = serializers.IntegerField(help_text="What has a begin and an end.")
    busy_s = kinds.number(
        "While anything ran on it, s; of Python's thread within modules and functions."
    )
    share = kinds.number("Of the time that was recorded.")


class TracePhaseAnswer(serializers.Serializer):
    """One phase of training steps, all of its calls together."""

    name = serializers.CharField(help_text="`forward`, `backward`, `step` or `clear_grad`.")
    count = serializers.IntegerField(help_text="Calls.")
    host_s = kinds.number("Time of Python's thread within modules and functions, s.")
    device_s = kinds.number("Time of the kernels that it handed over meanwhile, s.")


class TraceScopeAnswer(serializers.Serializer):
    """A module or function, by where it was called from."""

    path = serializers.ListField(child=serializers.CharField(), help_text="Outermost first.")
    count = serializers.IntegerField(help_text="Calls.")
    host_s = kinds.number("Time of Python's thread, with all that it called, s.")
    host_self_s = kinds.number("The same without what it called, s.")
    device_s = kinds.number("Time of its kernels, with those of all that it called, s.")
    device_self_s = kinds.number("The same without what it called, s.")
    operators = serializers.IntegerField(help_text="That it handed over itself.")


class TraceWaitAnswer(serializers.Serializer):
    """Python waited for a value that the device computed."""

    path = serializers.ListField(child=serializers.CharField(), help_text="Where.")
    tensor = serializers.CharField(allow_blank=True, help_text="Name of the tensor.")
    begin_s = kinds.number("When, by the clock of the trace, s.")
    wait_s = kinds.number("How long by MegEngine's event, s.")
    after_s = kinds.number(
        "How much longer, s: until the device had computed all that it had been given, if Python "
        "did nothing meanwhile."
    )


class TraceCurveAnswer(serializers.Serializer):
    """One counter, at most 500 moments with the highest value up to the next one."""

    name = serializers.CharField(help_text="As MegEngine wrote it.")
    at_s = kinds.numbers("Moments, s.")
    values = kinds.numbers("Values.")
    lowest = kinds.number("Of all values in the file.")
    highest = kinds.number("Of all values in the file.")


class TraceLaneUseAnswer(serializers.Serializer):
    """One thread or device over time."""

    number = serializers.IntegerField(help_text="What a cut calls it.")
    name = serializers.CharField(help_text="As in the file.")
    kind = serializers.CharField(help_text="`host`, `worker`, `device` or `other`.")
    spans = serializers.IntegerField(help_text="What has a begin and an end.")
    busy = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Percent of each of 300 equal parts of the time in which anything ran.",
    )
    begun = serializers.ListField(
        child=serializers.IntegerField(), help_text="How many spans begin in each of them."
    )


class TraceOverviewAnswer(serializers.Serializer):
    """A trace over time, for choosing a cut."""

    begin_s = kinds.number("The first event, by the clock of the trace, s.")
    end_s = kinds.number("The last end, s.")
    events = serializers.IntegerField(help_text="Spans and counters, which is what cuts have.")
    size_bytes = serializers.IntegerField(help_text="Of the file.")
    lanes = TraceLaneUseAnswer(many=True, help_text="Threads and devices, at most 200.")
    counters = serializers.ListField(
        child=serializers.IntegerField(), help_text="Counters in each of the 300 parts."
    )
    moments_s = kinds.numbers("301 moments; between two neighbours lie equally many events.")


class TraceAnswer(serializers.Serializer):
    """A trace without its operators, which are those of the profile."""

    begin_s = kinds.number("Where recording began, by the clock of the trace, s.")
    end_s = kinds.number("Where it ended, s.")
    events = serializers.IntegerField(help_text="In the file.")
    lanes = TraceLaneAnswer(many=True, help_text="Threads and devices.")
    phases = TracePhaseAnswer(many=True, help_text="Of training steps.")
    scopes = TraceScopeAnswer(many=True, help_text="The 5,000 with the longest time on the device.")
    scopes_left_out = serializers.IntegerField(help_text="How many more there are.")
    waits = TraceWaitAnswer(many=True, help_text="The 1,000 longest.")
    waits_count = serializers.IntegerField(help_text="How many there are in all.")
    wait_s = kinds.number("All of them together, by MegEngine's events, s.")
    wait_after_s = kinds.number("And how much longer, s.")
    curves = TraceCurveAnswer(many=True, help_text="Counters.")
    unpaired = serializers.IntegerField(help_text="Events without their other half.")
    out_of_order = serializers.IntegerField(help_text="Threads whose events had to be sorted.")
    broken = serializers.IntegerField(help_text="Events without a time.")
    is_cut = serializers.BooleanField(help_text="The file ends before its list does.")
    overview = TraceOverviewAnswer(
        required=False,
        allow_null=True,
        help_text="Null or missing in what was made by an earlier version of this site.",
    )
    copies = serializers.IntegerField(
        help_text="Operators on several devices. Their device time is that in which all of these "
        "were in them.",
    )
    copies_waited_s = kinds.number(
        "What the lanes of devices have of them beside that time, s: one waited for another."
    )
    repeated = serializers.IntegerField(
        help_text="Operators that were computed more than once, as their outputs had been freed "
        "(DTR). Their times are sums."
    )
    again = serializers.IntegerField(help_text="How often that was, beyond their first executions.")
    operators = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="How many there are; 0 where none was sent to a device. Null or missing in "
        "what was made by an earlier version of this site, which is never 0.",
    )
