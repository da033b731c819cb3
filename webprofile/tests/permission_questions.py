"""Requests that name a thing outside of the path: in the query, in a form, or in JSON.

`$value` is the thing. `$task`, `$waiting`, `$profile` and `$public` (a device) belong to the user
who sends the request.
"""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from tasks.tests.make import MD5
from webprofile.tests.permission_table import ABSENT
from webprofile.tests.permission_world import DEVICE, SECRET, World

_MODEL = {"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5}
_GRANTED, _OWNER, _ADMINISTRATOR = "granted user", "owner", "administrator"


@dataclass(frozen=True)
class Question:
    """A request about a thing of `things`. Only the person `sees` may see that thing."""

    thing: str
    sees: str
    address: str
    body: str = ""
    is_json: bool = True

    def __str__(self) -> str:
        return f"{self.address} {self.body}".strip()

    def request(self, world: World, person: str, value: Any) -> tuple[str, str, Any]:
        """Return method, address and body."""
        names = {name: str(key) for name, key in world.own[person].items()}
        names["value"] = str(value)
        address = Template(self.address).substitute(names)
        if not self.body:
            return "GET", address, None
        body = Template(self.body).substitute(names)
        return "POST", address, json.loads(body) if self.is_json else body


def things(world: World) -> dict[str, Any]:
    """Return the things that the other user may not see."""
    values = world.values
    return {
        "device": DEVICE,
        "device's id": world.box.pk,
        "pool": values["pool"],
        "task": values["task_id"],
        "second task": values["other_id"],
        "second profile": second_profile(world),
        "file": values["file_id"],
        "user": "alice@example.com",
        "title": SECRET,
    }


def absent(value: Any) -> Any:
    return ABSENT[type(value)]


def second_profile(world: World) -> int:
    return int(world.queries["api:compare"].rpartition("=")[2])


def _api_task(**more: Any) -> str:
    chosen = {} if "target" in more else {"runtime_version": "1.13.0"}
    return _with_number(json.dumps({"files": [_MODEL], **chosen, **more}))


def _with_number(text: str) -> str:
    """Remove the quotes around placeholders that stand for numbers."""
    return text.replace('"#$value"', "$value").replace('"#$public"', "$public")


_NUMBER, _PUBLIC = "#$value", "#$public"
_AT = {"labels": {"at": "$value"}}
_IN = {"pool": "$value"}
_SOURCE = [{"kind": "model", "from_file": _NUMBER}]

QUESTIONS = [
    # filters of lists
    Question("device", _OWNER, "/tasks/?device=$value"),
    Question("device", _OWNER, "/tasks/rows/?device=$value"),
    Question("task", _OWNER, "/tasks/rows/?q=%23$value"),
    Question("user", _ADMINISTRATOR, "/tasks/rows/?owner=$value"),
    Question("device", _GRANTED, "/workers/?q=$value"),
    Question("device", _GRANTED, "/workers/rows/?q=$value"),
    Question("device", _OWNER, "/api/v1/tasks/?worker_name=$value"),
    Question("device's id", _OWNER, "/api/v1/tasks/?worker=$value"),
    Question("user", _ADMINISTRATOR, "/api/v1/tasks/?owner=$value"),
    Question("device", _OWNER, "/api/v1/profiles/?worker_name=$value"),
    Question("task", _OWNER, "/api/v1/profiles/?task=$value"),
    Question("title", _OWNER, "/tasks/rows/?q=$value"),
    Question("title", _OWNER, "/api/v1/tasks/?title=$value"),
    Question("title", _OWNER, "/api/v1/tasks/?model_name=$value"),
    Question("title", _OWNER, "/api/v1/profiles/?title=$value"),
    Question("title", _OWNER, "/api/v1/profiles/opened/?name=$value"),
    Question("title", _OWNER, "/profiles/compare/?p=$profile&find=$value"),
    Question("device", _OWNER, "/profiles/compare/?p=$profile&find=$value"),
    Question("device", _GRANTED, "/api/v1/workers/?name=$value"),
    Question("pool", _GRANTED, "/api/v1/workers/?pool=$value"),
    # the form and its requests
    Question("device's id", _GRANTED, "/tasks/new/?worker=$value"),
    Question("task", _OWNER, "/tasks/new/?from=$value"),
    Question("device's id", _GRANTED, "/tasks/outlook/?worker=$value&runtime=1.13.0"),
    Question("device", _GRANTED, "/tasks/outlook/?any=1&labels=at%3D$value"),
    Question("pool", _GRANTED, "/tasks/outlook/?any=1&pool=$value"),
    # new tasks
    Question("device's id", _GRANTED, "/api/v1/tasks/", _api_task(worker=_NUMBER)),
    Question("device", _GRANTED, "/api/v1/tasks/", _api_task(worker="$value")),
    Question("device", _GRANTED, "/api/v1/tasks/", _api_task(target=_AT)),
    Question("pool", _GRANTED, "/api/v1/tasks/", _api_task(target=_IN)),
    Question("file", _ADMINISTRATOR, "/api/v1/tasks/", _api_task(worker=_PUBLIC, files=_SOURCE)),
    Question("task", _OWNER, "/api/v1/tasks/", _api_task(worker=_PUBLIC, copied_from=_NUMBER)),
    Question("device's id", _GRANTED, "/api/v1/tasks/judge/", _api_task(worker=_NUMBER)),
    Question("device", _GRANTED, "/api/v1/tasks/judge/", _api_task(worker="$value")),
    Question("device", _GRANTED, "/api/v1/tasks/judge/", _api_task(target=_AT)),
    Question("pool", _GRANTED, "/api/v1/tasks/judge/", _api_task(target=_IN)),
    Question("device's id", _GRANTED, "/tasks/$waiting/move/", "worker=$value", is_json=False),
    Question("device's id", _GRANTED, "/api/v1/tasks/$waiting/move/", '{"worker": $value}'),
    Question("device", _GRANTED, "/api/v1/tasks/$waiting/move/", '{"worker": "$value"}'),
    # bulk actions
    Question("task", _OWNER, "/api/v1/tasks/cancel/", '{"tasks": [$value]}'),
    Question("task", _OWNER, "/api/v1/tasks/submit/", '{"tasks": [$value]}'),
    Question("task", _OWNER, "/tasks/act/", "act=delete&task=$value", is_json=False),
    # together with a thing of one's own
    Question("file", _OWNER, "/tasks/$task/files/$value/"),
    Question("file", _OWNER, "/api/v1/tasks/$task/files/$value/"),
    Question("second task", _OWNER, "/tasks/$task/compare-io/$value/"),
    Question("second profile", _OWNER, "/profiles/compare/?p=$profile&p=$value"),
    Question("second profile", _OWNER, "/api/v1/profiles/compare/?p=$profile&p=$value"),
    Question("second profile", _OWNER, "/api/v1/profiles/compare/export/csv/?p=$profile&p=$value"),
    Question("second profile", _OWNER, "/api/v1/profiles/compare/graph/?p=$profile&p=$value"),
]
