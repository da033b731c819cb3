"""What goes out about figures and advice."""

from rest_framework import serializers

from profiles.models import AttemptMeasurement
from profiles.rest import operator_answers as kinds


class HistogramAnswer(serializers.Serializer):
    """How iterations spread; see the comment of `AttemptMeasurement.histogram`."""

    edges_ms = kinds.numbers("Limits of the bins, one more than there are bins, ms.")
    counts = serializers.ListField(
        child=serializers.IntegerField(), help_text="Iterations in each bin."
    )
    above = serializers.IntegerField(help_text="Iterations beyond the last limit.")


class PassAnswer(serializers.Serializer):
    """One process of the attempt."""

    number = serializers.IntegerField(help_text="From 1.")
    kind = serializers.CharField(help_text="`clean`, `profiled`, `dump` or `inspect`.")
    kept = serializers.BooleanField(help_text="Whether it counts.")
    iterations = serializers.IntegerField(help_text="How many were timed.")
    median_ms = kinds.number("Median of its own iterations, ms.")
    exit_code = serializers.IntegerField(allow_null=True, help_text="Null: it was ended.")
    run_s = kinds.number("How long it ran, s.")


class DisturbanceAnswer(serializers.Serializer):
    """What may have made the figures worse."""

    code = serializers.CharField(help_text="Stable code.")
    text = serializers.CharField(help_text="In the reader's words.")
    detail = serializers.CharField(help_text="What was seen, in English.", allow_blank=True)


class DeviceStateAnswer(serializers.Serializer):
    """One fact of the device, before and after the run, with units, in the reader's words."""

    name = serializers.CharField(help_text="What.")
    before = serializers.CharField(help_text="Before the run.")
    after = serializers.CharField(help_text="After it.")


class LatencyAnswer(serializers.ModelSerializer[AttemptMeasurement]):
    """Times of iterations without profiling, and what is known of the run."""

    histogram = HistogramAnswer(
        allow_null=True, help_text="Of the iterations without profiling; null without them."
    )
    passes = PassAnswer(many=True, help_text="All processes of the attempt.")
    contaminations = DisturbanceAnswer(many=True, help_text="What disturbed it.")
    device = DeviceStateAnswer(many=True, help_text="The device before and after.")
    device_totals_s = kinds.numbers("Total of operators on the device in each profiled pass, s.")
    waited_s = kinds.number("How long it waited for a quiet device, s.")

    class Meta:
        model = AttemptMeasurement
        fields = (
            "iterations", "median_ms", "mean_ms", "p90_ms", "p99_ms", "min_ms", "max_ms", "cv",
            "histogram", "profiled_iterations", "profiled_median_ms", "overhead",
            "device_totals_s", "device_cv", "start_s", "load_ms", "waited_s", "passes",
            "contaminations", "device",
        )  # fmt: skip
        extra_kwargs = {
            "iterations": {"help_text": "How many were timed without profiling."},
            "median_ms": {"help_text": "Their median, ms; null without a clean pass."},
            "mean_ms": {"help_text": "Their mean, ms."},
            "p90_ms": {"help_text": "A tenth took longer, ms."},
            "p99_ms": {"help_text": "A hundredth took longer, ms."},
            "min_ms": {"help_text": "The shortest, ms."},
            "max_ms": {"help_text": "The longest, ms."},
            "cv": {"help_text": "Standard deviation (n - 1) / mean."},
            "profiled_iterations": {"help_text": "How many were timed while profiling."},
            "profiled_median_ms": {"help_text": "Their median, ms."},
            "overhead": {"help_text": "Median while profiling / median without - 1."},
            "device_cv": {"help_text": "Standard deviation / mean of `device_totals_s`."},
            "start_s": {"help_text": "What a process does beside iterations, s."},
            "load_ms": {"help_text": "How long the model loads, ms."},
        }


class StabilityAnswer(serializers.Serializer):
    """Whose times differ so much from pass to pass that their order means little."""

    unstable = serializers.IntegerField(help_text="Operators over their limit.")
    known = serializers.IntegerField(help_text="Operators with several samples.")
    share = kinds.number("Part of the side's time that the unstable ones have.")
    total_cv = kinds.number("Standard deviation / mean of the passes' totals.")
    total_is_unstable = serializers.BooleanField(help_text="Whether that is over the limit.")


class SideAnswer(serializers.Serializer):
    """One side: the device or the host."""

    side = serializers.CharField(help_text="`device` or `host`.")
    total_s = kinds.number("Sum of all self times, s; of several passes, of their medians.")
    lowest_s = kinds.number("The least total of a pass, s.")
    highest_s = kinds.number("The greatest total of a pass, s.")
    stability = StabilityAnswer(help_text="How steady the times are.")


class CoverageAnswer(serializers.Serializer):
    """How much of an iteration the operators explain."""

    share = kinds.number("`operators_s` / `iteration_s`; above 1 where operators overlap.")
    operators_s = kinds.number("Sum of the operators' times on the device, s.")
    iteration_s = kinds.number("Time of an iteration, s.")
    basis = serializers.CharField(
        help_text="Where `iteration_s` is from: `clean`, `profiled` or `log`."
    )


class LeftOutAnswer(serializers.Serializer):
    """A file that could not be merged."""

    name = serializers.CharField(help_text="The file.")
    word = serializers.CharField(help_text="Why, in the reader's words.")
    detail = serializers.CharField(help_text="Why, in English.", allow_blank=True)


class StatisticsAnswer(serializers.Serializer):
    """Figures over passes and iterations."""

    passes = serializers.IntegerField(help_text="Profiled passes that were merged.")
    left_out = LeftOutAnswer(many=True, help_text="Files that could not be merged.")
    mismatches = serializers.ListField(
        child=serializers.CharField(),
        help_text="Why opened files cannot be of one run, in the reader's words; mostly empty.",
    )
    sides = SideAnswer(many=True, help_text="Device and host.")
    coverage = CoverageAnswer(allow_null=True, help_text="Null: no iteration's time is known.")
    latency = LatencyAnswer(
        allow_null=True, help_text="What the agent measured; null: nothing (an opened profile)."
    )


class AdviceOperator(serializers.Serializer):
    """An operator that a finding is about."""

    row = serializers.IntegerField(help_text="Its row in tables.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    type = serializers.CharField(help_text="Its type.", allow_blank=True)
    time = serializers.CharField(help_text="Its time on the device, with its unit.")


class FindingAnswer(serializers.Serializer):
    """One thing worth doing."""

    rule = serializers.CharField(help_text="Stable code of the rule.")
    severity = serializers.ChoiceField(
        ["warning", "gain", "note"],
        help_text="warning: other figures are wrong as long as this is so; gain: time can be "
        "saved; note: neither.",
    )
    title = serializers.CharField(help_text="What, in the reader's words.")
    sentence = serializers.CharField(help_text="With its numbers.")
    why = serializers.CharField(help_text="Why it matters.", allow_blank=True)
    step = serializers.CharField(help_text="What to do.", allow_blank=True)
    saves_s = kinds.number("The most that an iteration could save, s.")
    estimate = serializers.CharField(
        help_text="How `saves_s` was estimated: `removed`, `halved`, `roof`, `idle`, `issuing`, "
        "`outside`, or empty.",
        allow_blank=True,
    )
    options = serializers.ListField(
        child=serializers.CharField(), help_text="Options of load_and_run that may help."
    )
    rows = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Operators that it is about, the one with most time first, at most 200.",
    )
    operators = AdviceOperator(many=True, help_text="The first five of them.")


class UnknownRule(serializers.Serializer):
    """A rule that could not be asked."""

    title = serializers.CharField(help_text="The rule.")
    lacks = serializers.CharField(help_text="What it lacks.")


class AdviceAnswer(serializers.Serializer):
    """What to do next."""

    findings = FindingAnswer(many=True, help_text="In order of importance.")
    has_gain = serializers.BooleanField(help_text="Whether any could save time.")
    checked = serializers.ListField(
        child=serializers.CharField(), help_text="Titles of the rules that were asked."
    )
    unknown = UnknownRule(many=True, help_text="Those that were not, and why.")
