"""What goes out about comparisons. The first profile, A, is the baseline."""

from rest_framework import serializers

from profiles.analysis.comparison.classify import REASONS, STATUSES
from profiles.analysis.comparison.confidence import VERDICTS
from profiles.rest.operator_answers import number, numbers, texts


class ComparedProfile(serializers.Serializer):
    """One of the profiles."""

    letter = serializers.CharField(help_text="`A` to `H`.")
    profile = serializers.IntegerField(help_text="Its id.")
    name = serializers.CharField(help_text="Name of the model or file.", allow_blank=True)
    origin = serializers.CharField(help_text="Device and version, or that it was opened.")
    passes = serializers.IntegerField(help_text="Its profiled passes: samples of each operator.")
    total_s = number("Sum of self times on the side that was asked for, s.")


class FactAnswer(serializers.Serializer):
    """What is known of the runs."""

    name = serializers.CharField(help_text="What, in the reader's words.")
    values = texts("One for each profile.")
    differs = serializers.BooleanField(help_text="Whether they differ.")


class TestAnswer(serializers.Serializer):
    """How sure a difference is."""

    difference_s = number("Time minus that of the baseline, s; negative is faster.")
    verdict = serializers.ChoiceField(
        VERDICTS,
        help_text="absent: no times; disturbed: one of the runs was; single: one sample; few: too "
        "few passes; unknown: how far equal runs differ on the device; none: no clear difference; "
        "faster; slower. All but the last three say that there is no verdict.",
    )
    change = number("Estimated ratio to the baseline minus 1 (Hodges-Lehmann, of logarithms).")
    change_low = number("Where the 95 % interval of `change` begins; never below -1.")
    change_high = number("Where it ends.")


class TotalAnswer(TestAnswer):
    """A sum of one of the other profiles."""

    letter = serializers.CharField(help_text="Whose.")
    time_s = number("Its value, s.")
    equal_runs_differ_by = number(
        "Up to which ratio minus 1 equal runs of the device differ; a smaller change gets no "
        "verdict. Null: not known."
    )


class TotalsAnswer(serializers.Serializer):
    """One sum, of all profiles."""

    key = serializers.ChoiceField(
        ["device", "host", "latency"],
        help_text="Total on the device, on the host, or median of iterations without profiling.",
    )
    baseline_s = number("Of the baseline, s.")
    others = TotalAnswer(many=True, help_text="Of the others.")


class StepAnswer(serializers.Serializer):
    """A step of the way from the baseline's total to another one."""

    kind = serializers.ChoiceField(
        ["start", "step", "rest", "end"], help_text="Totals are `start` and `end`."
    )
    name = serializers.CharField(
        help_text="Operator, type or scope; empty: none.", allow_blank=True
    )
    delta_s = number("What it adds, s.")
    from_s = number("Where it begins, s.")
    to_s = number("Where it ends, s.")
    rows = serializers.IntegerField(help_text="How many rows it stands for.")
    row = serializers.IntegerField(allow_null=True, help_text="The row, if it is a single one.")


class BaselineCell(serializers.Serializer):
    """What the baseline has."""

    operators = texts("Names of its operators.")
    time_s = number("Sum of their medians, s.")
    samples_s = numbers("The sum in each pass, s.")


class OtherCell(TestAnswer):
    """What another profile has."""

    status = serializers.ChoiceField(STATUSES, help_text="What became of it.")
    reasons = serializers.ListField(
        child=serializers.ChoiceField(REASONS), help_text="What differs."
    )
    aligned = texts("How it was found.")
    operators = texts("Names of its operators.")
    time_s = number("Sum of their medians, s.")
    samples_s = numbers("The sum in each pass, s.")


class ComparedRow(serializers.Serializer):
    """Operators that belong together."""

    row = serializers.IntegerField(help_text="Its number in this comparison.")
    operator = serializers.CharField(help_text="What it is called after.", allow_blank=True)
    type = serializers.CharField(help_text="That operator's type.", allow_blank=True)
    baseline = BaselineCell(help_text="What the baseline has.")
    others = serializers.ListField(
        child=OtherCell(allow_null=True),
        help_text="What each other profile has; null: neither it nor the baseline has anything.",
    )


class CompareAnswer(serializers.Serializer):
    """Profiles side by side."""

    format = serializers.CharField(help_text="Name and version of this shape.")
    side = serializers.CharField(help_text="Whose times rows have: `device` or `host`.")
    profiles = ComparedProfile(many=True, help_text="The profiles, the baseline first.")
    facts = FactAnswer(many=True, help_text="What is known of the runs.")
    warnings = texts("What one must know before trusting a difference.")
    common = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Rows that each other profile shares with the baseline.",
    )
    totals = TotalsAnswer(many=True, help_text="Sums and iteration time.")
    waterfall = StepAnswer(many=True, help_text="From the baseline's total to that of `with`.")
    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Rows by status, before any narrowing."
    )
    quiet = serializers.IntegerField(help_text="Rows that fit but changed too little.")
    quiet_delta_s = numbers("What these add for each other profile, s.")
    total = serializers.IntegerField(help_text="Rows that were asked for.")
    offset = serializers.IntegerField(help_text="Place of the first row here.")
    rows = ComparedRow(many=True, help_text="The rows.")


class CandidateAnswer(serializers.Serializer):
    """A result that can be added."""

    profile = serializers.IntegerField(help_text="Its id.")
    title = serializers.CharField(help_text="Name of the model or file.", allow_blank=True)
    origin = serializers.CharField(help_text="Device and version, or that it was opened.")
    task_title = serializers.CharField(
        help_text="Its owner's words for its task.", allow_blank=True
    )
    options = texts("Its options that differ from their defaults, as on a command line.")
    kin = serializers.ChoiceField(
        ["same_file", "same_name", ""],
        help_text="Whether it is of the model of the first chosen one.",
    )


class CandidatesAnswer(serializers.Serializer):
    """A page of results that can be added."""

    page = serializers.IntegerField(help_text="Which, from 1.")
    pages = serializers.IntegerField(help_text="How many there are.")
    total = serializers.IntegerField(help_text="Results that fit.")
    results = CandidateAnswer(many=True, help_text="The most alike first.")


class ValueRow(serializers.Serializer):
    """One variable in two dumps."""

    status = serializers.CharField(help_text="`equal`, `close`, or how it differs.")
    differs = serializers.BooleanField(help_text="Whether the difference is more than rounding.")
    is_first = serializers.BooleanField(help_text="The first one that differs.")
    step = serializers.IntegerField(
        allow_null=True, help_text="Place in the order of execution; null: unknown."
    )
    operator = serializers.CharField(help_text="What makes it.", allow_blank=True)
    type = serializers.CharField(help_text="That operator's type.", allow_blank=True)
    variable = serializers.CharField(help_text="Its name.", allow_blank=True)
    file = serializers.CharField(help_text="Its file in the dump.")
    a = serializers.CharField(help_text="Data type and shape in the first.", allow_blank=True)
    b = serializers.CharField(help_text="Data type and shape in the second.", allow_blank=True)
    max_abs = number("Largest difference.")
    max_rel = number("Largest difference, relative.")
    differing = serializers.IntegerField(allow_null=True, help_text="Numbers that differ.")
    numbers = serializers.IntegerField(allow_null=True, help_text="Numbers that it has.")
    nan_a = serializers.IntegerField(allow_null=True, help_text="NaN in the first.")
    nan_b = serializers.IntegerField(allow_null=True, help_text="NaN in the second.")
    first = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="Place of the first number that differs.",
    )


class ValuesAnswer(serializers.Serializer):
    """The values of all variables of two tasks."""

    total = serializers.IntegerField(help_text="Variables of both.")
    differing = serializers.IntegerField(help_text="Variables that differ.")
    changed = serializers.IntegerField(help_text="Variables that differ by rounding only.")
    ordered = serializers.BooleanField(help_text="Whether rows have the order of execution.")
    rows_total = serializers.IntegerField(help_text="Rows that were asked for, at most 10,000.")
    offset = serializers.IntegerField(help_text="Place of the first row here.")
    rows = ValueRow(many=True, help_text="The rows.")


class BesideAnswer(serializers.Serializer):
    """A task whose values can be compared with another one's."""

    task = serializers.IntegerField(help_text="Its number.")
    model_name = serializers.CharField(help_text="File name of its model.", allow_blank=True)
    worker_name = serializers.CharField(help_text="Its device.")
    runtime_version = serializers.CharField(help_text="Its MegEngine.")
