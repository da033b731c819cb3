"""Every number that comes from a device, a file or a request has a finite range."""

import copy
import importlib
import json
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, TypeAdapter
from rest_framework import serializers

import accounts
import profiles
import tasks
import workers
from agent.protocol import measurement, messages, plan
from profiles.analysis.durations import ABSENT, duration
from profiles.analysis.numbers import share
from profiles.formats.chrome_trace.events import TraceEvent
from profiles.formats.load_and_run.profile_schema import StrictFile, StrictWiredGraph
from profiles.formats.load_and_run.reader import WholeFile
from profiles.ingest.limited_process import ParseJob, derive_archive
from profiles.presenters.formatting import bytesize, giga, microseconds, milliseconds
from profiles.tests.imports import make_import
from profiles.tests.response_checks import profile_urls, response_faults
from profiles.tests.traces import TWO_OPERATORS, to_trace
from tasks.dispatch import gateway
from tasks.models import Attempt
from tasks.tests.make import make_attempt, make_user, make_waiting_task
from testdata import good_profile
from webprofile import fields
from webprofile.api.renderers import FiniteJSONRenderer
from webprofile.tests.documented_api import caller
from workers.models import Worker

#: numbers that break a sum, a product, a float or a timedelta
TOO_LARGE = ["1e308", "-1e308", "1e999", "NaN", "Infinity", "1" + "0" * 400, "-" + "9" * 30]


def unbounded(schema: Any, place: str = "") -> Iterator[str]:
    """Yield the place of each number in a JSON schema that lacks a finite limit on either side."""
    if isinstance(schema, list):
        for number, item in enumerate(schema):
            yield from unbounded(item, f"{place}[{number}]")
        return
    if not isinstance(schema, dict):
        return
    if schema.get("additionalProperties") is True or schema == {}:
        yield f"{place}: any value"
    if schema.get("type") in ("number", "integer"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", -math.inf))
        high = schema.get("maximum", schema.get("exclusiveMaximum", math.inf))
        if "const" not in schema and "enum" not in schema and not -1e300 < low <= high < 1e300:
            yield place
    for name, value in schema.items():
        if name not in ("default", "const", "enum", "discriminator"):
            yield from unbounded(value, f"{place}.{name}")


def pydantic_models() -> list[type[BaseModel]]:
    modules = [messages, measurement, plan]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseModel) and value.model_fields
    }
    return sorted(found, key=lambda model: model.__name__)


def request_serializers() -> list[type[serializers.Serializer]]:
    for app in (accounts, workers, tasks, profiles):
        for module in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
            if not {"tests", "migrations", "__main__"} & {*module.name.split(".")}:
                importlib.import_module(module.name)

    def below(base: type) -> Iterator[type]:
        for child in base.__subclasses__():
            yield child
            yield from below(child)

    found = {*below(fields.Body), *below(fields.QueryParameters)}
    return sorted(found, key=lambda form: (form.__module__, form.__name__))


def unbounded_fields(field: serializers.Field, place: str) -> Iterator[str]:
    """Yield the numeric fields of a serializer that lack a limit or accept NaN."""
    if isinstance(field, serializers.BaseSerializer) and hasattr(field, "fields"):
        for name, member in field.fields.items():
            yield from unbounded_fields(member, f"{place}.{name}")
    elif isinstance(field, serializers.ListSerializer | serializers.ListField):
        yield from unbounded_fields(field.child, f"{place}[]")
    elif isinstance(field, serializers.DictField):
        yield from unbounded_fields(field.child, f"{place}.*")
    elif isinstance(field, serializers.IntegerField | serializers.FloatField):
        low, high = field.min_value, field.max_value
        if low is None or high is None or not -1e300 < low <= high < 1e300:
            yield place
        if isinstance(field, serializers.FloatField):
            with pytest.raises(serializers.ValidationError):
                field.run_validation(math.nan)


def test_every_number_of_the_protocol_and_of_files_of_an_attempt_is_bounded():
    models = pydantic_models()
    assert {messages.Hello, messages.Start, messages.Heartbeat, measurement.Measurement} <= {
        *models
    }
    places = [
        f"{model.__name__}{place}"
        for model in models
        for place in unbounded(TypeAdapter(model).json_schema())
    ]
    assert places == []


def test_every_number_of_a_request_is_bounded():
    forms = request_serializers()
    assert len(forms) > 40
    places = [place for form in forms for place in unbounded_fields(form(), form.__name__)]
    assert places == []


def test_the_walk_finds_a_number_without_limits():
    class Model(BaseModel):
        at: float
        facts: dict[str, Any]
        sizes: tuple[int, ...]

    class Form(fields.Body):
        size = serializers.IntegerField()

    assert len(list(unbounded(TypeAdapter(Model).json_schema()))) == 3
    assert list(unbounded_fields(Form(), "form")) == ["form.size"]


HELLO = {
    "type": "hello",
    "agent_version": "1",
    "facts": {
        "hostname": "h",
        "platform": "p",
        "machine": "m",
        "cores": 4,
        "memory_bytes": 2**30,
        "gpus": [{"name": "g", "memory_bytes": 2**30}],
    },
}


def numbers_in(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each number in a JSON document."""
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from numbers_in(value, (*path, key))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path


def with_number(document: Any, path: tuple[Any, ...], text: str) -> str:
    """Return the JSON of a document with the number at `path` replaced by `text`."""
    changed = json.loads(json.dumps(document))
    *parents, last = path
    place = changed
    for key in parents:
        place = place[key]
    place[last] = "@@"
    return json.dumps(changed).replace('"@@"', text)


def assert_pages_answer(user: Any, client: Any, task_id: int, worker: Worker) -> None:
    client.force_login(user)
    api = caller(user)
    for path in ("/workers/", f"/workers/{worker.name}/", "/tasks/", f"/tasks/{task_id}/"):
        assert client.get(path).status_code == 200, path
    names = ("", f"{worker.name}/", f"{worker.name}/queue/?version=1.13.0")
    for path in (*(f"workers/{name}" for name in names), "tasks/", f"tasks/{task_id}/queue/"):
        assert api.get(f"/api/v1/{path}").status_code == 200, path


@pytest.mark.django_db
@pytest.mark.parametrize("text", TOO_LARGE)
def test_pages_answer_whatever_numbers_a_device_sends(client, root, text):
    attempt = make_attempt()
    waiting = make_waiting_task()
    frames: list[dict[str, Any]] = [
        HELLO,
        {"type": "attempt.started", "at": 1.0, "download_s": 1.0, "attempt": str(attempt.pk)},
        {
            "type": "attempt.finished", "at": 1.0, "reason": "exited", "exit_code": 1,
            "run_s": 1.0, "attempt": str(attempt.pk),
        },
    ]  # fmt: skip
    for frame in frames:
        for path in numbers_in(frame):
            try:
                message = messages.decode_agent(with_number(frame, path, text))
            except ValueError:
                continue
            gateway.handle(attempt.worker, message)
    assert_pages_answer(root, client, waiting.pk, attempt.worker)


@pytest.mark.django_db
def test_pages_answer_with_rows_of_an_earlier_version(client, root):
    """Rows that were stored before numbers had limits."""
    make_user("alice")
    attempt = make_attempt()
    waiting = make_waiting_task()
    facts = HELLO["facts"] | {"memory_bytes": 10**400, "cores": 10**30}
    facts["gpus"] = [{"name": "g", "memory_bytes": 10**400}]
    Worker.objects.update(facts=facts)
    Attempt.objects.update(
        run_s=1e308, download_s=1e308, started_at=attempt.created_at, ended_at=attempt.created_at
    )
    assert_pages_answer(root, client, waiting.pk, attempt.worker)


def schema_places(kind: msgspec.inspect.Type, place: tuple[str, ...] = ()) -> Iterator[Any]:
    """Yield the place of each value of a reader's schema that can be a number; `*` is any key."""
    match kind:
        case msgspec.inspect.StructType(fields=members):
            for member in members:
                yield from schema_places(member.type, (*place, member.encode_name))
        case msgspec.inspect.DictType(value_type=value):
            yield from schema_places(value, (*place, "*"))
        case msgspec.inspect.CollectionType(item_type=item):
            yield from schema_places(item, (*place, "*"))
        case msgspec.inspect.UnionType(types=kinds):
            for each in kinds:
                yield from schema_places(each, place)
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType() | msgspec.inspect.AnyType():
            yield place


def replaced(document: Any, place: tuple[str, ...]) -> bool:
    """Replace the first value at a place by "@@"; returns whether the place exists."""
    key, *rest = place
    if isinstance(document, list):
        return any(replaced(item, tuple(rest)) for item in document if rest)
    if not isinstance(document, dict):
        return False
    if not rest:
        document[next(iter(document), key) if key == "*" else key] = "@@"
        return True
    keys = list(document) if key == "*" else [key]
    return any(replaced(document.get(each), tuple(rest)) for each in keys)


#: good files by their format, with the schemas of their readers and where in the file these begin
READERS = {
    "profile": (
        good_profile("two_inputs"),
        [(WholeFile, ()), (StrictFile[StrictWiredGraph], ())],
    ),
    "trace": (to_trace(*TWO_OPERATORS), [(list[TraceEvent], ("traceEvents",))]),
}


def is_read(folder: Path, document: Any, text: str) -> bool:
    """Whether the reader accepts a file with the number `text` at each "@@"."""
    (folder / "file.json").write_text(json.dumps(document).replace('"@@"', text))
    job = ParseJob(("file.json",), (), max_bytes=1 << 30, memory_bytes=1 << 40, time_s=600)
    return isinstance(derive_archive(folder, job), bytes)


@pytest.mark.django_db
@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=() if text == "1e308" else pytest.mark.exhaustive, id=text[:9])
        for text in TOO_LARGE
    ],
)
@pytest.mark.parametrize("name", READERS)
def test_pages_answer_whatever_numbers_a_file_has(client, tmp_path, name, text):
    """Numbers at all places of the readers' schemas at once, without those that are refused."""
    content, schemas = READERS[name]
    document, kept = json.loads(content), 0
    places = {
        place
        for schema, root in schemas
        for place in schema_places(msgspec.inspect.type_info(schema), root)
    }
    assert len(places) > 10
    for place in sorted(places):
        changed = copy.deepcopy(document)
        assert replaced(changed, place), place
        if is_read(tmp_path, changed, text):
            document, kept = changed, kept + 1
    assert kept
    user = make_user("alice")
    client.force_login(user)
    upload = make_import(user, json.dumps(document).replace('"@@"', text).encode())
    assert upload.state == "ready"
    profile = upload.profile
    for path in [*profile_urls(profile, profile.page_url), "/api/v1/profiles/"]:
        assert response_faults(client.get(path)) == [], path


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, None])
@pytest.mark.parametrize("form", [bytesize, duration, giga, microseconds, milliseconds, share])
def test_filters_show_what_is_not_finite_as_absent(form, value):
    assert form(value) == ABSENT


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_response_has_null_for_what_is_not_finite(value):
    assert json.loads(FiniteJSONRenderer().render({"rows": [{"x": value, "y": 1}]})) == {
        "rows": [{"x": None, "y": 1}]
    }
