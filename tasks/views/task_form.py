"""Context of the form for a new task: choices, initial values, messages and the queue."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from agent.protocol.options import OPTIONS, Value
from agent.protocol.pairs import ARM_NAMES
from tasks.api.serializers import TaskAnswer
from tasks.models import Task, TaskFile
from tasks.options import changed_options
from tasks.scheduling.fair_share import ANY_PRIORITY, OWN_PRIORITY
from tasks.scheduling.messages import queue_rows
from tasks.scheduling.queue_depth import loads_of
from tasks.scheduling.queue_status import outlook
from tasks.scheduling.targets import candidates_or_refuse, newest_first, pools_of, read_target
from tasks.submission.drafts import preferred_first
from tasks.submission.request import FileRequest, TaskRequest
from tasks.submission.validation import allowed_priority, quota_of
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.messages.errors import WORDINGS, word
from workers.models import Runtime, Worker
from workers.selectors import labels_of, visible_runtime, visible_workers

#: texts of files that the form alone refuses (`static/js/tasks/new/file_heads.js`)
_FORM_ONLY: dict[str, Any] = {
    "unreadable": _(
        "This file could not be read. It may have been changed or moved. Choose it again."
    ),
    "model": _("A MegEngine model, %(size)s."),
    "other_format": _(
        "A format other than FBS_V2: the device determines which inputs the model has."
    ),
    "unread": _("The inputs could not be read in the browser. The device will read them."),
    "no_such_input": _("The model has no input “%(input)s”. Its inputs: %(inputs)s."),
    "no_inputs": _("The model has no inputs. Remove this row."),
    "other_dtype": _("“%(input)s” is %(expected)s in the model, but %(dtype)s here."),
    "integers_for_float": _(
        "“%(input)s” is %(expected)s in the model; numbers without a decimal point are "
        "%(dtype)s. Write 1.0 instead of 1."
    ),
    "other_shape": _(
        "“%(input)s” is %(expected)s in the model. The run uses the shape given here."
    ),
    "matches": _("%(arrays)s, as in the model"),
    "fortran": _(
        "%(arrays)s in Fortran order. The device converts it to C order before the run; the "
        "values do not change."
    ),
}
_OF_THE_SERVER = ("input_", "model_", "script_is_", "script_not_", "script_zip_")


def where_rows(reader: User) -> dict[str, Any]:
    """Return the choices of the form: devices with their load, labels, pools and versions."""
    workers = list(visible_workers(reader).filter(retired_at=None).prefetch_related("pools"))
    loads = loads_of(workers)
    labels: dict[str, set[str]] = {}
    for worker in workers:
        for name, value in labels_of(worker).items():
            labels.setdefault(name, set()).add(value)
    runtimes = {worker.pk: _runtimes_newest_first(worker) for worker in workers}
    versions = {row.version for rows in runtimes.values() for row in rows}
    limit = ANY_PRIORITY if reader.is_staff else OWN_PRIORITY
    return {
        "workers": [(worker, loads[worker.pk], runtimes[worker.pk]) for worker in workers],
        "takes_scripts": any(worker.takes_scripts for worker in workers),
        "labels": [(name, sorted(values)) for name, values in sorted(labels.items())],
        "pools": sorted({name for worker in workers for name in pools_of(worker)}),
        "versions": sorted(versions, key=newest_first, reverse=True),
        "priority_limit": limit,
    }


def _runtimes_newest_first(worker: Worker) -> list[Runtime]:
    """Sort by number: as texts, 1.9.1 would follow 1.13.0."""
    rows = worker.runtimes.all()
    return sorted(rows, key=lambda row: newest_first(row.version), reverse=True)


def outlook_of(params: QueryDict, reader: User) -> dict[str, Any]:
    """Return the context of `tasks/_outlook.html`: the queue that the task would enter.

    params: `worker` and `runtime`, or with `any` a target: `labels` (name=value, repeated),
        `pool`, `versions`, and what the device has to support: `options` as JSON, `files`, the
        options that have a file (repeated); `priority`; `script` if the task is a script
    """
    answer: dict[str, Any] = {"quota": quota_of(reader)}
    try:
        runtime = _runtime(params, reader)
        if runtime is None:
            return answer
        facts = outlook(
            runtime.worker,
            runtime.version,
            owner=reader,
            priority=allowed_priority(reader, read_priority(params.get("priority") or "0")),
            is_script=bool(params.get("script")),
        )
    except DomainError as error:
        return answer | {"problem": word(error)}
    chosen = runtime if params.get("any") else None
    return answer | {"queue": queue_rows(facts), "worker": runtime.worker, "chosen": chosen}


def _runtime(params: QueryDict, reader: User) -> Runtime | None:
    """Return the selected runtime; None if none is selected yet."""
    if params.get("any"):
        pairs = (text.partition("=") for text in params.getlist("labels"))
        labels = {name: value for name, _, value in pairs}
        target = read_target(
            {"labels": labels, **{k: params.get(k, "") for k in ("pool", "versions")}},
            scripts=bool(params.get("script")),
        )
        return preferred_first(candidates_or_refuse(target, user=reader), _request(params))[0]
    version = params.get("runtime", "")
    if not version.isprintable():
        return None
    return visible_runtime(reader, parse_key(params.get("worker", "")), version[:40])


def _request(params: QueryDict) -> TaskRequest:
    """Return a request with the chosen options, which may be invalid."""
    try:
        options = json.loads(params.get("options", "{}"))
    except (ValueError, RecursionError):
        options = {}
    kind = TaskFile.Kind.OPTION
    files = (FileRequest(kind, "", 0, "", option=name) for name in params.getlist("files"))
    return TaskRequest(options=options if isinstance(options, dict) else {}, files=tuple(files))


def read_priority(value: str) -> int:
    """Parse the priority that a form sends. Raises DomainError priority_bad."""
    text = value.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,4}", text):
        return int(text)
    raise DomainError("priority_bad", field="priority", low=-OWN_PRIORITY, high=OWN_PRIORITY)


def form_data(task: Task, switches: Sequence[str] = ()) -> dict[str, Any]:
    """Return a task's data in the format of the API, with the values for the form's fields.

    switches: names of options that are turned on in addition; others than switches are ignored

    The new request refers to the task's files by id: `{"kind", "from_file"}`. `address` of a file
    leads to its content, from which the form reads the inputs of a model.
    """
    data = TaskAnswer(task, context={"attempts": ()}).data
    script = data["script"]
    return data | {
        "files": [
            file | {"address": reverse("tasks:file", args=[task.pk, file["id"]])}
            for file in data["files"]
        ],
        # in the syntax of a command line
        "script": script and script | {"arguments": shlex.join(script["arguments"])},
        "options": {name: _exact(value) for name, value in task.options.items()}
        | {name: True for name in switches if name in OPTIONS and OPTIONS[name].kind == "bool"},
        "seed": str(task.seed),
    }


def arm_rows(task: Task) -> list[dict[str, Any]]:
    """Return the arms of a paired comparison after the baseline, as the form lists them.

    `model`, `options` and `inputs` are those that the arm has in place of the baseline's.
    """
    rows = []
    for number, arm in enumerate(task.pairing["arms"] if task.pairing else (), start=1):
        own = [file for file in task.files.all() if file.arm == number]
        names = {kind: [file.name for file in own if file.kind == kind] for kind in TaskFile.Kind}
        given = [variable["name"] for variable in arm["inputs"] or ()]
        rows.append(
            {
                "number": number,
                "letter": ARM_NAMES[number],
                "model": "".join(names[TaskFile.Kind.MODEL]),
                "version": arm["runtime_version"],
                "has_options": arm["options"] is not None,
                "options": changed_options(arm["options"] or {}),
                "inputs": [*names[TaskFile.Kind.DATA], *given],
                "is_stored": all(file.is_stored for file in own),
            }
        )
    return rows


def _exact(value: Value) -> Value:
    """Convert integers beyond 2**53 to strings, since JavaScript's numbers cannot hold them."""
    return str(value) if isinstance(value, int) and abs(value) > 2**53 else value


def file_words() -> dict[str, str]:
    """Texts for a chosen file that cannot be used, which the form shows before an upload.

    `static/js/tasks/new/file_heads.js` applies the rules of `tasks.submission.contents` in the
    browser, and shows {code: text} in the reader's language. A text has its values in braces, as
    `fill` of static/js/format.js takes it.
    """
    server = {code: text for code, text in WORDINGS.items() if code.startswith(_OF_THE_SERVER)}
    return {code: _in_braces(str(text)) for code, text in {**server, **_FORM_ONLY}.items()}


def _in_braces(text: str) -> str:
    return re.sub(r"%\((\w+)\)s", r"{\1}", text).replace("%%", "%")
