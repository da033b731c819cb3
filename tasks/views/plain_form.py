"""A task from the form of a browser without JavaScript: its files pass through this site."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from accounts.models import User
from agent.protocol.options import OPTIONS, Option
from profiles.retention.deletion import discard_draft
from tasks.models import Task, TaskFile
from tasks.submission.copies import copy_sources, rows_of
from tasks.submission.creation import create_task
from tasks.submission.pairing import LABELS as PAIRING_LABELS
from tasks.submission.plans import LABELS as PLAN_LABELS
from tasks.submission.schema import TaskBody, find_worker, task_request_of
from tasks.submission.uploads import check_sources, confirm_task
from webprofile.client.batchfile.values import FORMATS
from webprofile.errors import DomainError
from webprofile.integers import parse_key
from webprofile.storage import storage

#: a file of the request, in the format of the API, and its content; None if it is a stored one
_File = tuple[dict[str, Any], UploadedFile | None]


def create_from_form(
    form: QueryDict, files: MultiValueDict[str, UploadedFile], owner: User
) -> Task:
    """Create a task from the fields of the form, store its files, and put it into the queue.

    A data file feeds the input variable of its name. Raises DomainError, and ValidationError of DRF
    for fields of the wrong type; no task remains then.
    """
    sent = list(_files(form, files))
    pairing = _pairing(form) if files.get("other-model") else None
    body = TaskBody.read(
        {**_request(form), "pairing": pairing, "files": [described for described, _ in sent]}
    )
    request = task_request_of(body, owner)
    check_sources(request.files)
    task = create_task(owner=owner, worker=find_worker(body["worker"]), request=request)
    try:
        for row, (_, content) in zip(rows_of(task, request.files), sent, strict=True):
            if content is not None:
                content.seek(0)
                storage.write_from(row.upload_key, content)
        copy_sources(task, request.files)
        confirm_task(task)
    except DomainError:
        discard_draft(task)
        raise
    return task


def _request(form: QueryDict) -> dict[str, Any]:
    """Return the request without its files, in the format of the API."""
    common = {
        **_where(form),
        "priority": _number(form.get("priority", "")),
        "title": form.get("title", ""),
    }
    if form.get("kind") == "script":
        return common | {"script": _script(form)}
    preset = form.get("preset", "")
    names = [name for name in PLAN_LABELS if preset == "custom" and name in form]
    numbers = {name: _number(form.get(name, "")) for name in names}
    flags = {"clean": "clean" in form} if preset == "custom" else {}
    return common | {
        "plan": {"preset": preset, **flags, **numbers},
        "seed": _number(form.get("seed", "")),
        "time_limit_s": _number(form.get("model_time_limit_s", "")),
        "options": dict(options_of(form)),
        "option_preset": form.get("option_preset", ""),
    }


def _pairing(form: QueryDict) -> dict[str, Any]:
    numbers = {name: _number(form.get(f"pairing-{name}", "")) for name in PAIRING_LABELS}
    return {**numbers, "arms": [{}]}


_LABEL = "label:"


def _where(form: QueryDict) -> dict[str, Any]:
    if form.get("where") != "any":
        worker = form.get("worker", "")
        return {
            "worker": _number(worker) if worker else None,
            "runtime_version": form.get("runtime", ""),
        }
    labels = {key.removeprefix(_LABEL): form[key] for key in form if key.startswith(_LABEL)}
    target = {
        "labels": {name: value for name, value in labels.items() if value},
        "pool": form.get("pool", ""),
        "versions": form.get("versions", "").strip(),
    }
    return {"target": target}


def _script(form: QueryDict) -> dict[str, Any]:
    return {
        "entry": form.get("entry", "").strip(),
        "arguments": form.get("arguments", ""),
        "formats": [FORMATS.get(name, name) for name in form.getlist("formats")],
        "sample_rate": _number(form.get("sample_rate", "")),
        "profile_device": "profile_device" in form,
        "time_limit_s": _number(form.get("time_limit_s", "")),
    }


def options_of(form: QueryDict) -> Iterator[tuple[str, Any]]:
    """Yield the options that differ from their defaults."""
    for name, option in OPTIONS.items():
        if option.kind in ("bool", "artifact"):
            if (name in form) is not (option.default is True):
                yield name, name in form
        elif text := form.get(name, "").strip():
            yield name, _value(option, text)


def _value(option: Option, text: str) -> int | float | str:
    return _number(text) if option.kind in ("int", "float") else text


def _number(text: str) -> int | float | str:
    """Return the number, 0 for an empty field; other texts stay, and their field refuses them."""
    bare = text.strip()
    if re.fullmatch(r"[+-]?[0-9]{1,19}", bare or "0"):
        return int(bare or "0")
    return float(bare) if re.fullmatch(r"[+-]?[0-9]{1,19}\.[0-9]{1,19}", bare) else bare


def _files(form: QueryDict, files: MultiValueDict[str, UploadedFile]) -> Iterator[_File]:
    """Yield the files of the request."""
    is_script = form.get("kind") == "script"
    if model := files.get("program" if is_script else "model"):
        yield _described("model", model), model
    for file in files.getlist("extra-files" if is_script else "data-files"):
        path = PurePosixPath(str(file.name))
        names_itself = is_script or path.suffix.lower() == ".json"
        yield _described("data", file, input="" if names_itself else path.stem), file
    if other := None if is_script else files.get("other-model"):
        yield {**_described("model", other), "arm": 1}, other
    for name in () if is_script else OPTIONS:
        source = form.get(f"{name}-source", "")
        if content := files.get(f"{name}-file"):
            yield _described("option", content, option=name), content
        elif source:
            # without its file, "upload" is refused as a file without a name
            stored = {"from_task": task} if (task := parse_key(source)) else {}
            yield {"kind": TaskFile.Kind.OPTION, "option": name, **stored}, None


def _described(kind: str, file: UploadedFile, **fields: str) -> dict[str, Any]:
    md5 = hashlib.md5(usedforsecurity=False)
    for chunk in file.chunks():
        md5.update(chunk)
    return {
        "kind": kind,
        "name": str(file.name),
        "size_bytes": file.size or 0,
        "md5": md5.hexdigest(),
        **fields,
    }
