"""Schema of a request for a task: JSON of pages, API clients and batch files to `TaskRequest`.

Structure and types are validated here, rules in `tasks.submission.validation`.
"""

from collections.abc import Callable
from typing import Any

from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import User
from agent.protocol.input_rules import MOST_AXES
from agent.protocol.messages import MAX_ARGUMENTS
from agent.protocol.multipart import MIB, PART_BYTES
from agent.protocol.pairs import MOST_ARMS, Pairing
from agent.protocol.plan import DEFAULT, MOST_BUDGET_S, MOST_CLEAN, MOST_PROFILED, PRESETS, Plan
from tasks.models import Task, TaskFile
from tasks.scheduling.fair_share import ANY_PRIORITY, OWN_PRIORITY
from tasks.scheduling.targets import Target, read_target
from tasks.selectors import visible_tasks
from tasks.submission.copies import resolve_file, upload_request
from tasks.submission.inputs import read_shape
from tasks.submission.pairing import LABELS as PAIRING_LABELS
from tasks.submission.pairing import PLAN, read_pairing
from tasks.submission.plans import LABELS, bounds_of, longest_run_s, read_plan
from tasks.submission.presets import NAME_LIMIT, with_preset
from tasks.submission.request import TaskRequest, input_request_of
from tasks.submission.scripts import (
    LARGEST_SAMPLE_RATE,
    LONGEST_ARGUMENT,
    read_script,
    split_arguments,
)
from tasks.submission.validation import TITLE_LIMIT
from webprofile import fields
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Worker

MOST_FILES = 200
SEED_LIMIT = 2**63 - 1


def _words(code: str, **data: Any) -> dict[str, Any]:
    """Return `error_messages` of a field that are all the message of one error code.

    data: values for the message; a value that depends on settings is given as a function
    """

    def text() -> str:
        values = {name: value() if callable(value) else value for name, value in data.items()}
        return word(DomainError(code, **values))

    message = lazy(text, str)()
    return dict.fromkeys(("invalid", "min_value", "max_value", "min_length", "max_length"), message)


def _plan_words(name: str) -> dict[str, Any]:
    return _words("plan_field", name=LABELS[name], **bounds_of(Plan, name))


class FileBody(fields.Body):
    """A file of a request: to be uploaded, or copied from an earlier task."""

    kind = fields.Choice(
        TaskFile.Kind.choices,
        help_text="`model` (one: the model, or the program of a script), `data` for inputs or to "
        "lie beside a script, or the content of an `option`.",
    )
    name = fields.OptionalText(
        max_length=1000,
        trim_whitespace=False,
        help_text="Its name, without a path. Data for inputs ends in .npy, .json, .ppm or .pgm.",
    )
    size_bytes = fields.Integer(
        default=0, help_text="Its exact size in bytes: the upload must have it."
    )
    md5 = fields.OptionalText(
        max_length=100,
        help_text="Its MD5, 32 lower-case hexadecimal digits: the upload must have it. "
        f"Leave it out to send a file of more than {PART_BYTES // MIB} MiB in parts.",
    )
    input = fields.OptionalText(
        max_length=1000,
        help_text="The input variable that it feeds; none for .json, which names its own.",
    )
    option = fields.OptionalText(
        max_length=100,
        help_text="The option whose content it is.",
    )
    arm = fields.Integer(
        default=0,
        max_value=MOST_ARMS - 1,
        error_messages=_words("pairing_arm_unknown", count=MOST_ARMS),
        help_text="The arm of a paired comparison that it belongs to; 0 is the baseline.",
    )
    from_file = fields.Key(
        allow_null=True,
        default=None,
        help_text="Take over this file of an earlier task, instead of an upload.",
    )
    from_task = fields.Key(
        allow_null=True,
        default=None,
        help_text="For an option: take over the cache that this task left.",
    )


class TypedList(fields.List):
    """A list field that also accepts a string, which `read_text` parses."""

    #: raises DomainError
    read_text: Callable[[str], Any]

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if isinstance(data, str):
            try:
                data = self.read_text(data)
            except DomainError as error:
                raise serializers.ValidationError(word(error), code=error.code) from error
        return super().run_validation(data)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 20},
            {"type": "string", "maxLength": 1000},
        ],
    }
)
class Shape(TypedList):
    """A shape (lengths along each axis), as a list or as text: `1,3,224,224`."""

    read_text = staticmethod(read_shape)


@extend_schema_field(
    {
        "oneOf": [
            {
                "type": "array",
                "items": {"type": "string", "maxLength": LONGEST_ARGUMENT},
                "maxItems": MAX_ARGUMENTS,
            },
            {"type": "string"},
        ],
    }
)
class Arguments(TypedList):
    """Arguments, as a list or as text that is split like a command line; nothing is expanded."""

    read_text = staticmethod(split_arguments)


class InputBody(fields.Body):
    """An input variable without a file: numbers, or random values."""

    name = fields.Text(max_length=1000, help_text="The variable.")
    literal = fields.OptionalText(
        max_length=100_000,
        help_text="Its numbers, such as `[[1,2.5],[3,4]]`.",
    )
    shape = Shape(
        child=fields.Integer(error_messages=_words("shape_bad", limit=MOST_AXES)),
        allow_null=True,
        default=None,
        max_length=20,
        error_messages=_words("shape_bad", limit=MOST_AXES),
        help_text="Of random values, as a list or as `1,3,224,224`; null: the model's own.",
    )
    dtype = fields.OptionalText(
        max_length=40,
        help_text="Of random values, such as `float32`; empty: the model's own.",
    )


class PlanBody(fields.Body):
    """The measurement plan: a preset, or `custom` with its numbers."""

    preset = fields.Choice(
        [*PRESETS, "custom"], required=False, help_text="The numbers are for `custom` alone."
    )
    clean = fields.Flag(required=False, help_text="Runs without profiling.")
    clean_passes = fields.Integer(
        required=False,
        min_value=1,
        max_value=MOST_CLEAN,
        error_messages=_plan_words("clean_passes"),
        help_text="How many of them, each in a process of its own (default 1).",
    )
    clean_min_s = fields.Number(
        required=False,
        error_messages=_plan_words("clean_min_s"),
        help_text="Each lasts at least so long, s.",
    )
    clean_min_iterations = fields.Integer(
        required=False,
        error_messages=_plan_words("clean_min_iterations"),
        help_text="Each has at least so many iterations.",
    )
    budget_s = fields.Integer(
        required=False,
        max_value=MOST_BUDGET_S,
        error_messages=_plan_words("budget_s"),
        help_text="Add such runs until the 95 % interval of the median is narrow enough, or until "
        "all of them have taken so long, s (default 0: add none).",
    )
    half_width = fields.Number(
        required=False,
        error_messages=_plan_words("half_width"),
        help_text="Half of the width at which the interval is narrow enough, as a ratio of its "
        "middle (default 0.01, which is ±1 %).",
    )
    profiled = fields.Integer(
        required=False,
        max_value=MOST_PROFILED,
        error_messages=_plan_words("profiled"),
        help_text="How many profiled runs.",
    )


@extend_schema_field(
    {"oneOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string", "maxLength": 10_000}]}
)
class OptionValue(serializers.Field):
    """The value of an option: true, a number or a string."""

    default_error_messages = {"invalid": _("Expected true, false, a number or a string.")}

    def to_internal_value(self, data: Any) -> bool | int | float | str:
        if isinstance(data, bool | int | float) or (isinstance(data, str) and len(data) <= 10_000):
            return data
        self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


def _pairing_words(name: str) -> dict[str, Any]:
    return _words("pairing_field", name=PAIRING_LABELS[name], **bounds_of(Pairing, name))


class ArmBody(fields.Body):
    """An arm of a paired comparison: what it has in place of the baseline's.

    Its own files have its number as their `arm`, counted from 1.
    """

    runtime_version = fields.OptionalText(
        max_length=40, help_text="One of the device's versions of MegEngine."
    )
    options = fields.Table(
        child=OptionValue(help_text="true, a number or a text."),
        allow_null=True,
        default=None,
        help_text="All its options of load_and_run; null: those of the baseline.",
    )
    inputs = InputBody(  # type: ignore[call-arg]
        many=True,
        allow_null=True,
        default=None,
        max_length=MOST_FILES,
        help_text="Its input variables that no file feeds; null: those of the baseline.",
    )


class PairingBody(fields.Body):
    """A paired comparison: the request is the baseline, and each arm is compared with it."""

    margin = fields.Number(
        required=False,
        error_messages=_pairing_words("margin"),
        help_text="Ratios of times within 1 ± `margin` count as equal (default 0.01).",
    )
    budget_s = fields.Integer(
        required=False,
        error_messages=_pairing_words("budget_s"),
        help_text="The longest time of measuring, s (default 60). It ends earlier with a verdict.",
    )
    least_cosine = fields.Number(
        required=False,
        min_value=-1,
        error_messages=_pairing_words("least_cosine"),
        help_text="Outputs with a smaller cosine similarity count as different (default 0.999).",
    )
    arms = ArmBody(  # type: ignore[call-arg]
        many=True,
        min_length=1,
        max_length=MOST_ARMS - 1,
        error_messages=_words("pairing_arms", limit=MOST_ARMS),
        help_text="The arms after the baseline.",
    )


_ARGUMENTS_BAD = _words("script_arguments_bad", limit=MAX_ARGUMENTS, length=LONGEST_ARGUMENT)


class ScriptBody(fields.Body):
    """A Python program instead of a model: its arguments, and the formats that are recorded."""

    entry = fields.Text(
        allow_null=True,
        allow_blank=True,
        default=None,
        max_length=1200,
        help_text="Path of the program within a .zip, such as `train/main.py`; none for a .py.",
    )
    arguments = Arguments(
        child=fields.Text(
            allow_blank=True,
            max_length=LONGEST_ARGUMENT,
            trim_whitespace=False,
            error_messages=_ARGUMENTS_BAD,
        ),
        default=list,
        max_length=MAX_ARGUMENTS,
        error_messages=_ARGUMENTS_BAD,
        help_text="What it is called with: a list of texts, or a line as one types it into a "
        "shell. No shell reads them.",
    )
    formats = fields.List(
        child=fields.Choice([*FORMATS.values()]),
        required=False,
        min_length=1,
        max_length=len(FORMATS),
        error_messages=_words("script_formats", choices=", ".join(FORMATS.values())),
        help_text="What is recorded, each in a run of its own; the timeline if nothing is given.",
    )
    sample_rate = fields.Integer(
        default=0,
        max_value=LARGEST_SAMPLE_RATE,
        error_messages=_words("script_sample_rate", limit=LARGEST_SAMPLE_RATE),
        help_text="Memory is counted every so many operators; 0: never.",
    )
    profile_device = fields.Flag(
        default=True, help_text="Whether the device's times are recorded too."
    )
    time_limit_s = fields.Integer(
        default=0,
        error_messages=_words("script_time_limit", limit=lambda: longest_run_s(len(FORMATS))),
        help_text="Of all runs together; 0: the site's, the longest.",
    )


class TargetBody(fields.Body):
    """The properties that a device must have; each key is optional."""

    labels = fields.Table(
        child=fields.Text(max_length=200),
        required=False,
        help_text='Labels with their values, such as `{"chip": "Kirin 990"}`.',
    )
    pool = fields.Text(
        required=False, allow_blank=True, max_length=200, help_text="Name of a pool of devices."
    )
    versions = fields.Text(
        required=False,
        allow_blank=True,
        max_length=200,
        help_text="Range of MegEngine versions, such as `>=1.12,<1.14`.",
    )


class TaskBody(fields.Body):
    """A new task: for a `worker` with a `runtime_version`, or for any that matches a `target`."""

    worker = fields.Named(allow_null=True, default=None, help_text="The device, by number or name.")
    runtime_version = fields.OptionalText(
        max_length=40,
        help_text="One of the device's versions of MegEngine.",
    )
    target = TargetBody(
        allow_null=True,
        default=None,
        help_text="Instead of `worker` and `runtime_version`: what any device must have.",
    )
    title = fields.OptionalText(
        max_length=TITLE_LIMIT,
        error_messages=_words("title_bad", limit=TITLE_LIMIT),
        help_text="Your own words, to find it again.",
    )
    priority = fields.Integer(
        default=0,
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        error_messages=_words("priority_bad", low=-OWN_PRIORITY, high=OWN_PRIORITY),
        help_text="More goes first, among your own tasks; more than a little is for "
        "administrators.",
    )
    options = fields.Table(
        child=OptionValue(help_text="true, a number or a text."),
        default=dict,
        help_text="Options of load_and_run by name, as `/api/v1/options/` lists them.",
    )
    option_preset = fields.OptionalText(
        max_length=NAME_LIMIT,
        help_text="Name of one of your presets of options; `options` replace its values.",
    )
    plan = PlanBody(default=dict, help_text="What is measured; `standard` if nothing is given.")
    seed = fields.Integer(
        default=0,
        max_value=SEED_LIMIT,
        error_messages=_words("seed_bad", limit=SEED_LIMIT),
        help_text="Of all random values.",
    )
    time_limit_s = fields.Integer(
        default=0,
        error_messages=_words("time_limit", limit=lambda: longest_run_s(1 + MOST_PROFILED)),
        help_text="Of all passes of a model together, s; 0: the site's, the longest. A script has "
        "its own within `script`.",
    )
    inputs = InputBody(  # type: ignore[call-arg]
        many=True,
        default=list,
        max_length=MOST_FILES,
        help_text="Input variables that no file feeds; the rest get random values.",
    )
    files = FileBody(  # type: ignore[call-arg]
        many=True, max_length=MOST_FILES, help_text="The model, data, and content of options."
    )
    script = ScriptBody(
        allow_null=True,
        default=None,
        help_text="To run a program instead of a model; options, plan, seed and inputs are not "
        "given then. It runs on devices that take scripts, in a sandbox.",
    )
    pairing = PairingBody(
        allow_null=True,
        default=None,
        help_text="To compare this request with others on the same device, in pairs of processes. "
        "`plan` is not given then.",
    )
    copied_from = fields.Key(
        allow_null=True,
        default=None,
        help_text="The task that this one repeats with changes.",
    )


class DraftBody(TaskBody):
    """A request that may be incomplete: files may be missing, or have only a name."""

    files = FileBody(  # type: ignore[call-arg]
        many=True,
        default=list,
        max_length=MOST_FILES,
        help_text="The model, data, and content of options, as far as they are chosen.",
    )


def find_worker(identifier: int | str | None) -> Worker | None:
    """Return the worker with this id or name; `validation.admit` checks the permission."""
    if identifier is None:
        return None
    key = {"pk": identifier} if isinstance(identifier, int) else {"name": identifier}
    return Worker.objects.filter(**key).first()


def task_request_of(
    body: dict[str, Any], user: User, problems: list[DomainError] | None = None
) -> TaskRequest:
    """Convert a validated `TaskBody` into a request; look up files of earlier tasks.

    problems: collects the errors, each with its field, and the invalid parts are left out; if it is
        None, the first error is raised
    """

    def part(read: Callable[..., Any], *args: Any, default: Any = None) -> Any:
        try:
            return read(*args)
        except DomainError as error:
            if problems is None:
                raise
            problems.append(error)
            return default

    files = [part(resolve_file, file, user, default=upload_request(file)) for file in body["files"]]
    return TaskRequest(
        runtime_version=body["runtime_version"],
        options=part(
            with_preset, user, body["option_preset"], body["options"], default=body["options"]
        ),
        files=tuple(files),
        inputs=tuple(map(input_request_of, body["inputs"])),
        plan=PLAN if body["pairing"] else part(read_plan, body["plan"], default=DEFAULT),
        seed=body["seed"],
        target=part(_target, body),
        priority=body["priority"],
        title=body["title"],
        script=part(read_script, body["script"]),
        pairing=part(read_pairing, body["pairing"]),
        time_limit_s=body["time_limit_s"],
        copied_from=part(_origin, body["copied_from"], user),
    )


def _target(body: dict[str, Any]) -> Target | None:
    target = body["target"]
    return None if target is None else read_target(target, scripts=body["script"] is not None)


def _origin(number: int | None, user: User) -> Task | None:
    if number is None:
        return None
    task = visible_tasks(user).filter(pk=number).first()
    if task is None:
        raise DomainError("source_unknown", field="copied_from", task=number)
    return task
