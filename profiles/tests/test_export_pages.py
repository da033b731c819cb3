"""Exports over HTTP and by command: content, filters and names of files."""

import csv
import io
import json
import re
import shlex

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command

from profiles.analysis.query import Query
from profiles.analysis.select import select
from profiles.analysis.text import profile_text
from profiles.formats.load_and_run.reader import parse
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.services import build_attempt_profile
from profiles.tests.imports import make_import
from profiles.tests.make import finished_attempt, make_profile, to_json
from profiles.tests.passes import another_pass
from tasks.tests.make import make_user
from testdata import DATA, good_profile

pytestmark = pytest.mark.django_db


@pytest.fixture
def opened(alice) -> Profile:
    return make_import(alice, good_profile("resnet18"), name="résnet <18>.json").profile


@pytest.fixture
def of_task(alice) -> Profile:
    attempt = finished_attempt(good_profile("resnet18"), owner=alice)
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt)


def rows_of(client, profile: Profile, query: str = "") -> list[dict[str, str]]:
    response = client.get(f"/profiles/{profile.pk}/export/csv/{query}")
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))


def test_files_of_an_opened_profile_are_called_as_its_owner_calls_them(client, alice):
    whole = good_profile("resnet18")
    broken = b'{"graph_exec": 1, "profiler": 2}'
    profile = make_import(alice, whole, another_pass(whole, 1), broken).profile
    exported = client.get(f"/profiles/{profile.pk}/export/json/").json()
    assert exported["passes"] == ["p0.json", "p1.json"]
    assert [entry["name"] for entry in exported["left_out"]] == ["p2.json"]
    report = client.get(f"/profiles/{profile.pk}/export/report/").content.decode()
    assert "<bdi>p2.json</bdi>" in report
    assert "profile-3.json" not in report


FORMATS = {
    "csv": ("text/csv", ".csv"),
    "json": ("application/json", ".json"),
    "trace": ("application/json", ".trace.json"),
    "report": ("text/html", ".html"),
    "text": ("text/plain", ".txt"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_sent_as_a_file_with_a_name_of_its_own(client, of_task, name):
    response = client.get(f"/profiles/{of_task.pk}/export/{name}/")
    kind, ending = FORMATS[name]
    assert response["Content-Type"].startswith(kind)
    task = of_task.attempt.task_id
    assert response["Content-Disposition"] == f'attachment; filename="net-task-{task}{ending}"'
    assert len(response.getvalue()) > 1000


def test_a_name_of_any_script_survives_in_the_files_name(client, opened):
    response = client.get(f"/profiles/{opened.pk}/export/csv/")
    filename = f"r%C3%A9snet-18-opened-{opened.upload_id}.csv"
    assert response["Content-Disposition"] == f"attachment; filename*=utf-8''{filename}"


def test_csv_holds_the_rows_that_the_address_asks_the_table_for(client, opened):
    data = profile_data(opened)
    assert len(rows_of(client, opened)) == len(data.columns)
    rows = rows_of(client, opened, "?type=ConvolutionForward&order=memory&up=1&rows=5")
    query = Query(types=("ConvolutionForward",), order="memory", ascending=True)
    assert [int(row["row"]) for row in rows] == select(data.columns, query).rows[:5].tolist()
    # parameters that only the page uses have no effect
    assert len(rows_of(client, opened, "?op=3&cols=op,time&page=2")) == len(data.columns)


def test_an_export_of_one_pass_has_the_times_of_that_pass_and_text_those_of_the_first(
    client, alice, testdata
):
    first, second = good_profile("resnet18"), another_pass(good_profile("resnet18"), 1)
    profile = make_import(alice, first, second).profile
    data = profile_data(profile)
    names = [data.columns.names[row] for row in range(len(data.columns))]
    for query, times in (("?pass=2", data.device.end_s[1]), ("?type=", data.device.median_s)):
        rows = rows_of(client, profile, query)
        exported = [float(row["device_time_s"]) for row in rows]
        assert exported == [times[names.index(row["name"])] for row in rows]
        assert exported == sorted(exported, reverse=True)
    totals = client.get(f"/profiles/{profile.pk}/export/json/?pass=2").json()["totals"]
    assert totals["device_s"] == pytest.approx(parse(second).device.total_s(), rel=1e-12)
    text = client.get(f"/profiles/{profile.pk}/export/text/").getvalue().decode()
    assert text == profile_text(parse(first), top=0, show_host=True)


def test_each_row_of_csv_says_which_task_it_is_of(client, opened, of_task):
    task = of_task.attempt.task
    task.title, task.options = "=nightly", {"fast_run": True}
    task.save()
    expected = {
        "model": "net.mge", "title": "'=nightly", "options": '{"fast_run":true}',
        "device": task.worker.name, "version": task.runtime_version,
    }  # fmt: skip
    for query in ("", "?agg=sum"):
        for row in rows_of(client, of_task, query):
            assert list(row)[-5:] == list(expected)
            assert {name: row[name] for name in expected} == expected
    row = rows_of(client, opened)[0]
    assert [row[name] for name in expected] == ["", "résnet <18>.json", "", "", ""]


def long_profile(alice, operators=1_500):
    times = {str(number): 1.0 / number for number in range(1, operators + 1)}
    attempt = finished_attempt(to_json(make_profile(times)), owner=alice)
    build_attempt_profile(attempt)
    return Profile.objects.get(attempt=attempt), profile_text(
        parse(to_json(make_profile(times))), top=0, show_host=True
    )


def test_texts_have_every_operator_wherever_they_are_asked_for(client, alice, tmp_path):
    profile, whole = long_profile(alice)
    task = profile.attempt.task_id
    for address in (
        f"/profiles/{profile.pk}/export/text/",
        f"/api/v1/profiles/{profile.pk}/text/",
        f"/api/v1/profiles/{profile.pk}/export/text/",
    ):
        assert client.get(address).getvalue().decode() == whole, address
    shorter = client.get(f"/api/v1/profiles/{profile.pk}/text/?rows=3").getvalue().decode()
    assert len(shorter) < len(whole) / 100
    call_command("export", "--profile", str(task), "-o", str(tmp_path / "a.txt"))
    assert (tmp_path / "a.txt").read_text() == whole


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_server_sends_a_text_while_it_is_made(async_client, storage):
    alice = await sync_to_async(make_user)()
    profile, whole = await sync_to_async(long_profile)(alice)
    await sync_to_async(async_client.force_login)(alice)
    response = await async_client.get(f"/profiles/{profile.pk}/export/text/")
    assert response.is_async
    pieces = [piece async for piece in response.streaming_content]
    assert b"".join(pieces).decode() == whole
    assert len(pieces) > 5


def test_csv_holds_groups_where_the_address_aggregates(client, opened):
    rows = rows_of(client, opened, "?agg=sum")
    groups = select(profile_data(opened).columns, Query(aggregate="sum", by_type=True))
    assert [float(row["time_s"]) for row in rows] == groups.self_s.tolist()
    assert rows[0]["type"] == "ConvolutionForward"


def test_json_says_where_the_profile_is_from_and_what_was_asked(client, of_task):
    document = client.get(f"/profiles/{of_task.pk}/export/json/?type=Reduce&agg=mean").json()
    meta, task = document["meta"], of_task.attempt.task
    assert (meta["task"], meta["device"], meta["megengine"]) == (
        task.pk,
        task.worker.name,
        "1.13.0",
    )
    assert [file["name"] for file in meta["files"]] == ["net.mge", "data.npy"]
    assert meta["profiles"][0]["name"] == "profile.json"
    assert meta["query"] == "?type=Reduce&agg=mean"
    assert [operator["type"] for operator in document["operators"]] == ["Reduce", "Reduce"]
    assert [group["operators"] for group in document["aggregate"]] == [2]
    assert "@example.com" not in json.dumps(document)


def test_a_question_that_cannot_be_answered_is_told(client, opened):
    refused = client.get(f"/profiles/{opened.pk}/export/csv/?name=(")
    assert refused.status_code == 422
    assert "The table cannot be made" in refused.content.decode()
    assert client.get(f"/profiles/{opened.pk}/export/parquet/").status_code == 404


def test_the_original_is_the_file_as_it_came(client, opened, of_task):
    for profile in (opened, of_task):
        response = client.get(f"/profiles/{profile.pk}/export/original/1/")
        assert httpx2.get(response["Location"]).content == good_profile("resnet18")
        assert client.get(f"/profiles/{profile.pk}/export/original/2/").status_code == 404


def test_the_report_of_a_task_tells_its_device_files_and_advice(client, of_task):
    text = client.get(f"/profiles/{of_task.pk}/export/report/").content.decode()
    task = of_task.attempt.task
    for fact in (task.worker.name, "1.13.0", "net.mge", "What to do next", f"#{task.pk}"):
        assert fact in text


def test_the_menu_stands_on_the_result_page_and_its_addresses_work(client, of_task):
    page = client.get(f"/tasks/{of_task.attempt.task_id}/result/").content.decode()
    menu = re.search(r'<details[^>]*id="export".*?</details>', page, re.DOTALL)[0]
    links = re.findall(r'href="([^"]+)"', menu)
    assert len(links) == len(FORMATS) + 2
    assert {client.get(link).status_code for link in links} == {200, 302}


def test_the_command_exports_files_and_tasks(of_task, tmp_path):
    file = DATA / "profiles" / "resnet18.json"
    task, out = of_task.attempt.task_id, tmp_path / "a.json"
    call_command("export", "--profile", str(file), "-o", str(out))
    operators = json.loads(out.read_text())["operators"]
    call_command("export", "--profile", str(task), "-o", str(out))
    assert json.loads(out.read_text())["operators"] == operators
    call_command("export", "--profile", str(task), "--query", "?type=Reduce", "-o", str(out))
    document = json.loads(out.read_text())
    assert (document["meta"]["task"], {operator["type"] for operator in document["operators"]}) == (
        task, {"Reduce"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ("--profile 999", "has no profile", 1),
        ("--profile no-such-file.json", "No such file", 1),
        ("--profile {bad}", "JSON", 1),
        ("--profile {good} --query name=(", "cannot be made", 1),
        ("--profile {good} --format parquet", "csv, json, trace, report, text", 2),
        ("--profile {good} --all", "without numbers, filters and", 2),
        ("--profile {good} --rows operator", "without numbers, filters and", 2),
        ("--all --query type=Reduce", "--profile", 2),
        ("--all --format report", "csv, json, parquet", 2),
    ],
)
def test_the_command_says_what_is_wrong(testdata, tmp_path, arguments, message, code):
    command_line = arguments.format(
        bad=DATA / "bad/profiles/not_json.json", good=DATA / "profiles/tiny.json"
    )
    with pytest.raises(CommandError, match=message) as caught:
        call_command("export", *shlex.split(command_line), "-o", str(tmp_path / "a.csv"))
    assert (caught.value.returncode, list(tmp_path.iterdir())) == (code, [])
