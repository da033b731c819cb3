"""What comes in about tasks: shape and types. The rules are in `tasks.asking.admission`."""

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import User
from agent.protocol.parts import MIB, PART_BYTES
from agent.protocol.plan import PRESETS
from agent.protocol.script import MAX_ARGUMENTS
from tasks.api import completed
from tasks.asking.admission import SEED_LIMIT, TITLE_LIMIT
from tasks.asking.measuring import limits_of, read_plan
from tasks.asking.request import TaskRequest
from tasks.asking.scripts import LARGEST_SAMPLE_RATE, LONGEST_ARGUMENT, read_script
from tasks.forms import FileBody, InputBody
from tasks.models import TaskFile
from tasks.queue.targets import read_target
from tasks.queue.turns import ANY_PRIORITY
from tasks.selectors import tasks_visible_to
from webprofile.batchfile.calls import FORMATS
from webprofile.errors import DomainError
from webprofile.rest import fields
from workers.models import Worker

MOST_FILES = 200


class FileAsked(fields.Body):
    """A file: announced for an upload, or taken over from an earlier task."""

    kind = fields.Choice(
        TaskFile.Kind.choices,
        help_text="`model` (one: the model, or the program of a script), `data` for inputs or to "
        "lie beside a script, or the content of an `option`.",
    )
    name = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=1000,
        trim_whitespace=False,
        help_text="Its name, without a path. Data for inputs ends in .npy, .json, .ppm or .pgm.",
    )
    size_bytes = fields.Integer(
        required=False, default=0, help_text="Its exact size in bytes: the upload must have it."
    )
    md5 = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=100,
        help_text="Its MD5, 32 lower-case hexadecimal digits: the upload must have it. "
        f"Leave it out to send a file of more than {PART_BYTES // MIB} MiB in parts.",
    )
    input = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=1000,
        help_text="The input variable that it feeds; none for .json, which names its own.",
    )
    option = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=100,
        help_text="The option whose content it is.",
    )
    from_file = fields.Key(
        required=False,
        allow_null=True,
        default=None,
        help_text="Take over this file of an earlier task, instead of an upload.",
    )
    from_task = fields.Key(
        required=False,
        allow_null=True,
        default=None,
        help_text="For an option: take over the cache that this task left.",
    )


class InputAsked(fields.Body):
    """An input variable without a file: numbers, or random values."""

    name = fields.Text(max_length=1000, help_text="The variable.")
    literal = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=100_000,
        help_text="Its numbers, such as `[[1,2.5],[3,4]]`.",
    )
    shape = fields.List(
        child=fields.Integer(),
        required=False,
        allow_null=True,
        default=None,
        max_length=20,
        help_text="Of random values; null: the model's own.",
    )
    dtype = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=40,
        help_text="Of random values, such as `float32`; empty: the model's own.",
    )


class PlanAsked(fields.Body):
    """What is measured: a preset, or `custom` with its numbers."""

    preset = fields.Choice(
        [*PRESETS, "custom"], required=False, help_text="The numbers are for `custom` alone."
    )
    clean = fields.Flag(required=False, help_text="A run without profiling.")
    clean_min_s = fields.Number(required=False, help_text="It lasts at least so long, s.")
    clean_min_iterations = fields.Integer(
        required=False, help_text="It has at least so many iterations."
    )
    profiled = fields.Integer(
        required=False,
        max_value=int(limits_of("profiled")[1]),
        help_text="How many profiled runs.",
    )


class ScriptAsked(fields.Body):
    """A Python program in place of a model: how it is called, and what is recorded of it."""

    entry = fields.Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        default=None,
        max_length=1200,
        help_text="Path of the program within a .zip, such as `train/main.py`; none for a .py.",
    )
    arguments = fields.List(
        child=fields.Text(allow_blank=True, max_length=LONGEST_ARGUMENT, trim_whitespace=False),
        required=False,
        default=list,
        max_length=MAX_ARGUMENTS,
        help_text="What it is called with, one text each; no shell reads them.",
    )
    formats = fields.List(
        child=fields.Choice([*FORMATS.values()]),
        required=False,
        min_length=1,
        max_length=len(FORMATS),
        help_text="What is recorded, each in a run of its own; the timeline if nothing is given.",
    )
    sample_rate = fields.Integer(
        required=False,
        default=0,
        max_value=LARGEST_SAMPLE_RATE,
        help_text="Memory is counted every so many operators; 0: never.",
    )
    profile_device = fields.Flag(
        required=False, default=True, help_text="Whether the device's times are recorded too."
    )
    time_limit_s = fields.Integer(
        required=False, default=0, help_text="Of all runs together; 0: the site's, the longest."
    )


class TargetAsked(fields.Body):
    """What any device must have; each key is optional."""

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


@extend_schema_field(
    {"oneOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string", "maxLength": 10_000}]}
)
class OptionValue(serializers.Field):
    """true, a number or a text."""

    default_error_messages = {"invalid": _("Give true, false, a number or a text.")}

    def to_internal_value(self, data: Any) -> bool | int | float | str:
        if isinstance(data, bool | int | float) or (isinstance(data, str) and len(data) <= 10_000):
            return data
        self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


class TaskBody(fields.Body):
    """A task to be made: on a `worker` with a `runtime_version`, or on any that fits a `target`."""

    worker = fields.Named(
        required=False, allow_null=True, default=None, help_text="The device, by number or name."
    )
    runtime_version = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=40,
        help_text="One of the device's versions of MegEngine.",
    )
    target = TargetAsked(
        required=False,
        allow_null=True,
        default=None,
        help_text="Instead of `worker` and `runtime_version`: what any device must have.",
    )
    title = fields.Text(
        required=False,
        default="",
        allow_blank=True,
        max_length=TITLE_LIMIT,
        help_text="Your own words, to find it again.",
    )
    priority = fields.Integer(
        required=False,
        default=0,
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text="More goes first, among your own tasks; more than a little is for "
        "administrators.",
    )
    options = fields.Table(
        child=OptionValue(help_text="true, a number or a text."),
        required=False,
        default=dict,
        help_text="Options of load_and_run by name, as `/docs/options/?format=json` lists them.",
    )
    plan = PlanAsked(
        required=False, default=dict, help_text="What is measured; `standard` if nothing is given."
    )
    seed = fields.Integer(
        required=False, default=0, max_value=SEED_LIMIT, help_text="Of all random values."
    )
    time_limit_s = fields.Integer(
        required=False,
        default=0,
        help_text="Of all passes of a model together, s; 0: the site's, the longest. A script has "
        "its own within `script`.",
    )
    inputs = InputAsked(  # type: ignore[call-arg]
        many=True,
        required=False,
        default=list,
        max_length=MOST_FILES,
        help_text="Input variables that no file feeds; the rest get random values.",
    )
    files = FileAsked(  # type: ignore[call-arg]
        many=True, max_length=MOST_FILES, help_text="The model, data, and content of options."
    )
    script = ScriptAsked(
        required=False,
        allow_null=True,
        default=None,
        help_text="To run a program instead of a model; options, plan, seed and inputs are not "
        "given then. It runs on devices that take scripts, in a sandbox.",
    )
    copied_from = fields.Key(
        required=False,
        allow_null=True,
        default=None,
        help_text="The task that this one repeats with changes.",
    )


class MoveBody(fields.Body):
    """Where to."""

    worker = fields.Named(help_text="The device, by number or name.")


class TaskChange(fields.Body):
    """What may be changed of a task that has not started."""

    priority = fields.Integer(
        min_value=-ANY_PRIORITY,
        max_value=ANY_PRIORITY,
        help_text="More goes first, among its owner's tasks.",
    )


class KeepBody(fields.Body):
    """Whether rules leave a task's files alone."""

    keep = fields.Flag(help_text="True: nothing of this task is removed by rule.")


class SavedViewBody(fields.Body):
    """Filters under a name."""

    name = fields.Text(max_length=60, help_text="One of the same name is replaced.")
    query = fields.Text(max_length=1000, help_text="As in the page's address, without `?`.")


class EventsQuery(fields.Query):
    """From where on."""

    after = fields.Whole(
        required=False,
        default=0,
        min_value=0,
        max_value=fields.KEY_LIMIT,
        help_text="Events after this number.",
    )
    limit = fields.Whole(
        required=False, default=200, min_value=1, max_value=1000, help_text="At most so many."
    )


class AttemptQuery(fields.Query):
    """Which attempt."""

    attempt = fields.Whole(
        required=False,
        min_value=1,
        max_value=32767,
        help_text="Number of the attempt; the last one if not given.",
    )


class LogQuery(AttemptQuery):
    """Which part of a log."""

    offset = fields.Whole(
        required=False,
        default=0,
        min_value=0,
        max_value=fields.KEY_LIMIT,
        help_text="Bytes of UTF-8 to pass over, as `Log-Next-Offset` told.",
    )


def worker_asked(named: int | str | None) -> Worker | None:
    """The device of this number or name; whether the reader may use it is judged by admission."""
    if named is None:
        return None
    key = {"pk": named} if isinstance(named, int) else {"name": named}
    return Worker.objects.filter(**key).first()


def request_asked(body: dict[str, Any], reader: User) -> TaskRequest:
    """The request of a validated `TaskBody`; files of earlier tasks are looked up.

    Raises DomainError, naming the field.
    """
    files = tuple(completed(FileBody(**file), reader) for file in body["files"])
    inputs = (InputBody(**given) for given in body["inputs"])
    target = body["target"]
    asked = TaskRequest(
        runtime_version=body["runtime_version"],
        options=body["options"],
        files=files,
        inputs=tuple(each.as_request(number) for number, each in enumerate(inputs)),
        plan=read_plan(body["plan"]),
        seed=body["seed"],
        target=None if target is None else read_target(target, scripts=bool(body["script"])),
        priority=body["priority"],
        title=body["title"],
        script=read_script(body["script"]),
        time_limit_s=body["time_limit_s"],
    )
    if body["copied_from"] is None:
        return asked
    origin = tasks_visible_to(reader).filter(pk=body["copied_from"]).first()
    if origin is None:
        raise DomainError("source_unknown", field="copied_from", task=body["copied_from"])
    return replace(asked, copied_from=origin)
