"""Requests that name an object outside of the path: in the query, in a form, or in JSON.

`$value` is the object. `$task`, `$waiting`, `$profile` and `$public` (a device) belong to the user
who sends the request.
"""

import json
from dataclasses import dataclass
from string import Template
from typing import Any

from tasks.tests.make import MD5
from webprofile.tests.permission_site import DEVICE, SECRET, PermissionSite
from webprofile.tests.permission_table import ABSENT

_MODEL = {"kind": "model", "name": "net.mge", "size_bytes": 11, "md5": MD5}
_GRANTED, _OWNER, _ADMINISTRATOR = "granted user", "owner", "administrator"


@dataclass(frozen=True)
class ObjectRequest:
    """A request that names one of `hidden_objects`, which only the person `viewer` may see."""

    name: str
    viewer: str
    address: str
    body: str = ""
    is_json: bool = True

    def __str__(self) -> str:
        return f"{self.address} {self.body}".strip()

    def build(self, site: PermissionSite, person: str, value: Any) -> tuple[str, str, Any]:
        """Return method, address and body."""
        names = {name: str(key) for name, key in site.own[person].items()}
        names["value"] = str(value)
        address = Template(self.address).substitute(names)
        if not self.body:
            return "GET", address, None
        body = Template(self.body).substitute(names)
        return "POST", address, json.loads(body) if self.is_json else body


def hidden_objects(site: PermissionSite) -> dict[str, Any]:
    """Return the objects that the other user may not see, by name."""
    values = site.values
    return {
        "device": DEVICE,
        "device's id": site.box.pk,
        "pool": values["pool"],
        "task": values["task_id"],
        "second task": values["other_id"],
        "second profile": second_profile(site),
        "file": values["file_id"],
        "user": "alice@example.com",
        "title": SECRET,
    }


def absent(value: Any) -> Any:
    return ABSENT[type(value)]


def second_profile(site: PermissionSite) -> int:
    return int(site.queries["api:compare"].rpartition("=")[2])


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

OBJECT_REQUESTS = [
    # filters of lists
    ObjectRequest("device", _OWNER, "/tasks/?device=$value"),
    ObjectRequest("device", _OWNER, "/tasks/rows/?device=$value"),
    ObjectRequest("task", _OWNER, "/tasks/rows/?q=%23$value"),
    ObjectRequest("user", _ADMINISTRATOR, "/tasks/rows/?owner=$value"),
    ObjectRequest("device", _GRANTED, "/workers/?q=$value"),
    ObjectRequest("device", _GRANTED, "/workers/all/rows/?q=$value"),
    ObjectRequest("device", _OWNER, "/api/v1/tasks/?worker_name=$value"),
    ObjectRequest("device's id", _OWNER, "/api/v1/tasks/?worker=$value"),
    ObjectRequest("user", _ADMINISTRATOR, "/api/v1/tasks/?owner=$value"),
    ObjectRequest("device", _OWNER, "/api/v1/profiles/?worker_name=$value"),
    ObjectRequest("task", _OWNER, "/api/v1/profiles/?task=$value"),
    ObjectRequest("title", _OWNER, "/tasks/rows/?q=$value"),
    ObjectRequest("title", _OWNER, "/api/v1/tasks/?title=$value"),
    ObjectRequest("title", _OWNER, "/api/v1/tasks/?model_name=$value"),
    ObjectRequest("title", _OWNER, "/api/v1/profiles/?title=$value"),
    ObjectRequest("title", _OWNER, "/api/v1/profiles/opened/?name=$value"),
    ObjectRequest("title", _OWNER, "/profiles/compare/?p=$profile&find=$value"),
    ObjectRequest("device", _OWNER, "/profiles/compare/?p=$profile&find=$value"),
    ObjectRequest("device", _GRANTED, "/api/v1/workers/?name=$value"),
    ObjectRequest("pool", _GRANTED, "/api/v1/workers/?pool=$value"),
    ObjectRequest("task", _OWNER, "/profiles/shares/?task=$value"),
    ObjectRequest("second profile", _OWNER, "/profiles/shares/?p=$profile&p=$value"),
    ObjectRequest("task", _OWNER, "/api/v1/shares/", '{"task": $value}'),
    # the form and its requests
    ObjectRequest("device's id", _GRANTED, "/tasks/new/?worker=$value"),
    ObjectRequest("task", _OWNER, "/tasks/new/?from=$value"),
    ObjectRequest("device's id", _GRANTED, "/tasks/outlook/?worker=$value&runtime=1.13.0"),
    ObjectRequest("device", _GRANTED, "/tasks/outlook/?any=1&labels=at%3D$value"),
    ObjectRequest("pool", _GRANTED, "/tasks/outlook/?any=1&pool=$value"),
    # new tasks
    ObjectRequest("device's id", _GRANTED, "/api/v1/tasks/", _api_task(worker=_NUMBER)),
    ObjectRequest("device", _GRANTED, "/api/v1/tasks/", _api_task(worker="$value")),
    ObjectRequest("device", _GRANTED, "/api/v1/tasks/", _api_task(target=_AT)),
    ObjectRequest("pool", _GRANTED, "/api/v1/tasks/", _api_task(target=_IN)),
    ObjectRequest(
        "file", _ADMINISTRATOR, "/api/v1/tasks/", _api_task(worker=_PUBLIC, files=_SOURCE)
    ),
    ObjectRequest("task", _OWNER, "/api/v1/tasks/", _api_task(worker=_PUBLIC, copied_from=_NUMBER)),
    ObjectRequest("device's id", _GRANTED, "/api/v1/tasks/judge/", _api_task(worker=_NUMBER)),
    ObjectRequest("device", _GRANTED, "/api/v1/tasks/judge/", _api_task(worker="$value")),
    ObjectRequest("device", _GRANTED, "/api/v1/tasks/judge/", _api_task(target=_AT)),
    ObjectRequest("pool", _GRANTED, "/api/v1/tasks/judge/", _api_task(target=_IN)),
    ObjectRequest("device's id", _GRANTED, "/tasks/$waiting/move/", "worker=$value", is_json=False),
    ObjectRequest("device's id", _GRANTED, "/api/v1/tasks/$waiting/move/", '{"worker": $value}'),
    ObjectRequest("device", _GRANTED, "/api/v1/tasks/$waiting/move/", '{"worker": "$value"}'),
    # bulk actions
    ObjectRequest("task", _OWNER, "/api/v1/tasks/cancel/", '{"tasks": [$value]}'),
    ObjectRequest("task", _OWNER, "/api/v1/tasks/submit/", '{"tasks": [$value]}'),
    ObjectRequest("task", _OWNER, "/tasks/act/", "act=delete&task=$value", is_json=False),
    # together with an object of the user
    ObjectRequest("file", _OWNER, "/tasks/$task/files/$value/"),
    ObjectRequest("file", _OWNER, "/api/v1/tasks/$task/files/$value/"),
    ObjectRequest("second task", _OWNER, "/tasks/$task/compare-io/$value/"),
    ObjectRequest("second profile", _OWNER, "/profiles/compare/?p=$profile&p=$value"),
    ObjectRequest("second profile", _OWNER, "/api/v1/profiles/compare/?p=$profile&p=$value"),
    ObjectRequest(
        "second profile", _OWNER, "/api/v1/profiles/compare/export/csv/?p=$profile&p=$value"
    ),
    ObjectRequest("second profile", _OWNER, "/api/v1/profiles/compare/graph/?p=$profile&p=$value"),
]
