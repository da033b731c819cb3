"""Exports over HTTP and by command: content, filters and names of files."""

import csv
import io
import json
import re
import shlex
from html import unescape

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command

from profiles.analysis.select import Query, select
from profiles.formats.load_and_run.reader import parse
from profiles.ingest.loading import profile_data
from profiles.models import AttemptMeasurement, Profile
from profiles.tests.imports import make_import
from profiles.tests.make import make_profile, profile_text, to_json
from profiles.tests.pages import make_result, whole_page
from profiles.tests.passes import another_pass
from tasks.tests.make import make_user
from testdata import DATA, good_profile

pytestmark = pytest.mark.django_db


@pytest.fixture
def imported(alice) -> Profile:
    return make_import(alice, good_profile("resnet18"), name="résnet <18>.json").profile


@pytest.fixture
def task_profile(alice) -> Profile:
    return make_result(good_profile("resnet18"), owner=alice)


def rows_of(client, profile: Profile, query: str = "") -> list[dict[str, str]]:
    response = client.get(f"/profiles/{profile.pk}/export/csv/{query}")
    assert response.status_code == 200
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"), newline="")))


def test_exports_of_an_imported_profile_use_the_names_of_its_files(client, alice):
    valid, damaged = good_profile("resnet18"), b'{"graph_exec": 1, "profiler": 2}'
    profile = make_import(alice, valid, another_pass(valid, 1), damaged).profile
    exported = client.get(f"/profiles/{profile.pk}/export/json/").json()
    assert exported["passes"] == ["p0.json", "p1.json"]
    assert [entry["name"] for entry in exported["left_out"]] == ["p2.json"]
    report = client.get(f"/profiles/{profile.pk}/export/report/").text
    assert "<bdi>p2.json</bdi>" in report
    assert "profile-3.json" not in report


FORMATS = {
    "csv": ("text/csv", ".csv"),
    "json": ("application/json", ".json"),
    "trace": ("application/json", ".trace.json"),
    "report": ("text/html", ".html"),
    "text": ("text/plain", ".txt"),
}


def test_every_format_is_a_download_with_its_own_extension(client, task_profile):
    task = task_profile.attempt.task_id
    for name, (media_type, extension) in FORMATS.items():
        response = client.get(f"/profiles/{task_profile.pk}/export/{name}/")
        assert response["Content-Type"].startswith(media_type)
        filename = f"net-task-{task}{extension}"
        assert response["Content-Disposition"] == f'attachment; filename="{filename}"'
        assert len(response.getvalue()) > 1000, name


def test_non_ascii_names_are_kept_in_the_filename(client, imported):
    response = client.get(f"/profiles/{imported.pk}/export/csv/")
    filename = f"r%C3%A9snet-18-opened-{imported.upload_id}.csv"
    assert response["Content-Disposition"] == f"attachment; filename*=utf-8''{filename}"


def test_csv_has_the_rows_of_the_query(client, imported):
    data = profile_data(imported)
    assert len(rows_of(client, imported)) == len(data.columns)
    rows = rows_of(client, imported, "?type=ConvolutionForward&order=memory&up=1&rows=5")
    query = Query(types=("ConvolutionForward",), order="memory", ascending=True)
    assert [int(row["row"]) for row in rows] == select(data.columns, query).rows[:5].tolist()
    # parameters that only the page uses have no effect
    assert len(rows_of(client, imported, "?op=3&cols=op,time&page=2")) == len(data.columns)


def test_the_menu_of_exports_says_which_rows_a_file_has(client, task_profile):
    every = len(profile_data(task_profile).columns)
    page = f"/tasks/{task_profile.attempt.task_id}/"
    all_rows, table = "all operators", "the filtered and sorted rows of the table"
    # the filter of the browser's own table, which the server does not know
    for query, text in (("?q=conv&sort=op", all_rows), ("?text=conv", table)):
        menu = client.get(page + query).text
        assert f"for spreadsheets; {text}" in menu
        (link,) = re.findall(r'data-asks href="(\S+csv/\S*)"', menu)
        content = client.get(unescape(link)).getvalue().decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(content)))
        assert (len(rows) == every) == (text == all_rows)


def test_an_export_of_one_pass_has_its_times(client, alice):
    first, second = good_profile("resnet18"), another_pass(good_profile("resnet18"), 1)
    profile = make_import(alice, first, second).profile
    data = profile_data(profile)
    names = [data.columns.names[row] for row in range(len(data.columns))]
    for query, times in (("?pass=2", data.device.end_s[1]), ("?type=", data.device.median_s)):
        rows = rows_of(client, profile, query)
        exported = [float(row["device_time_s"]) for row in rows]
        expected = [times[names.index(row["name"])] for row in rows]
        assert exported == pytest.approx(expected, rel=1e-11)
        assert exported == sorted(exported, reverse=True)
    totals = client.get(f"/profiles/{profile.pk}/export/json/?pass=2").json()["totals"]
    assert totals["device_s"] == pytest.approx(parse(second).device.total_s(), rel=1e-12)
    text = client.get(f"/profiles/{profile.pk}/export/text/").getvalue().decode()
    assert text == profile_text(parse(first), top=0, show_host=True)


def test_the_report_numbers_the_passes_of_an_import_as_its_page_does(client, alice):
    first = good_profile("tiny")
    profile = make_import(alice, first, another_pass(first, 1), another_pass(first, 2)).profile
    for place, file in enumerate(profile.upload.files.all()):
        file.name = f"profile-{place}.json"
        file.save()
    for place in (1, 2, 3):
        chart = client.get(f"/api/v1/profiles/{profile.pk}/charts/timeline/?pass={place}").json()
        assert chart["pass_number"] == place
        report = client.get(f"/profiles/{profile.pk}/export/report/?pass={place}").text
        assert f"Profiled pass {place}, one iteration" in report
        assert all(f"<bdi>profile-{number}.json</bdi>" in report for number in range(3))


def test_timelines_of_exports_are_of_the_chosen_pass(client, alice):
    first, second = good_profile("tiny"), another_pass(good_profile("tiny"), 2)
    profile = make_import(alice, first, second).profile
    data = profile_data(profile)
    address = f"/profiles/{profile.pk}/export"
    for query, place in (("", 0), ("?pass=2", 1)):
        trace = json.loads(client.get(f"{address}/trace/{query}").getvalue())
        drawn = {
            event["args"]["row"]: event["dur"]
            for event in trace["traceEvents"]
            if event["ph"] == "X" and event["pid"] == 1 and "args" in event
        }
        expected = {row: data.device.end_s[place, row] * 1e6 for row in drawn}
        assert drawn == pytest.approx(expected, abs=2e-3)
        report = client.get(f"{address}/report/{query}").getvalue().decode()
        assert f"Profiled pass {place + 1}, one iteration" in report
        text = client.get(f"{address}/text/{query}").getvalue().decode()
        assert text == profile_text(parse((first, second)[place]), top=0, show_host=True)


def test_every_csv_row_identifies_its_task(client, imported, task_profile):
    task = task_profile.attempt.task
    task.title, task.options = "=nightly", {"fast_run": True}
    task.save()
    expected = {
        "model": "net.mge", "title": "'=nightly", "options": '{"fast_run":true}',
        "device": task.worker.name, "version": task.runtime_version,
    }  # fmt: skip
    for query in ("", "?agg=sum"):
        for row in rows_of(client, task_profile, query):
            assert list(row)[-5:] == list(expected)
            assert {name: row[name] for name in expected} == expected
    row = rows_of(client, imported)[0]
    assert [row[name] for name in expected] == ["", "résnet <18>.json", "", "", ""]


def long_profile(alice, operators=1_500):
    """Return a profile of many operators and its text."""
    times = {str(number): 1.0 / number for number in range(1, operators + 1)}
    data = to_json(make_profile(times))
    text = profile_text(parse(data), top=0, show_host=True)
    return make_result(data, owner=alice), text


def test_texts_have_every_operator_unless_rows_are_limited(client, alice, tmp_path):
    profile, expected = long_profile(alice)
    task = profile.attempt.task_id
    for address in (
        f"/profiles/{profile.pk}/export/text/",
        f"/api/v1/profiles/{profile.pk}/text/",
        f"/api/v1/profiles/{profile.pk}/export/text/",
    ):
        assert client.get(address).getvalue().decode() == expected, address
    shorter = client.get(f"/api/v1/profiles/{profile.pk}/text/?rows=3").getvalue().decode()
    assert len(shorter) < len(expected) / 100
    call_command("export", "--profile", str(task), "-o", str(tmp_path / "a.txt"))
    assert (tmp_path / "a.txt").read_text() == expected


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_text_is_streamed(async_client, storage):
    alice = await sync_to_async(make_user)()
    profile, expected = await sync_to_async(long_profile)(alice)
    await sync_to_async(async_client.force_login)(alice)
    response = await async_client.get(f"/profiles/{profile.pk}/export/text/")
    assert response.is_async
    pieces = [piece async for piece in response.streaming_content]
    assert b"".join(pieces).decode() == expected
    assert len(pieces) > 5


def test_csv_has_the_groups_of_an_aggregating_query(client, imported):
    rows = rows_of(client, imported, "?agg=sum")
    groups = select(profile_data(imported).columns, Query(aggregate="sum", by_type=True))
    assert [float(row["time_s"]) for row in rows] == pytest.approx(groups.self_s, rel=1e-11)
    assert rows[0]["type"] == "ConvolutionForward"
    assert rows_of(client, imported, "?agg=sum&rows=3") == rows[:3]


def test_json_has_the_source_of_the_profile_and_the_query(client, task_profile):
    document = client.get(f"/profiles/{task_profile.pk}/export/json/?type=Reduce&agg=mean").json()
    meta, task = document["meta"], task_profile.attempt.task
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


def test_invalid_queries_and_unknown_formats_are_refused(client, imported):
    response = client.get(f"/profiles/{imported.pk}/export/csv/?name=(")
    assert response.status_code == 422
    assert "The table cannot be computed" in response.text
    assert client.get(f"/profiles/{imported.pk}/export/parquet/").status_code == 404


def test_the_original_is_the_uploaded_file(client, imported, task_profile):
    for profile in (imported, task_profile):
        response = client.get(f"/profiles/{profile.pk}/export/original/1/")
        assert httpx2.get(response["Location"]).content == good_profile("resnet18")
        assert client.get(f"/profiles/{profile.pk}/export/original/2/").status_code == 404


def test_json_and_report_have_the_latency_and_its_steady_state(client, task_profile):
    address = f"/profiles/{task_profile.pk}/export"
    assert client.get(f"{address}/json/").json()["meta"]["latency"] is None
    AttemptMeasurement.objects.create(
        attempt=task_profile.attempt,
        iterations=100,
        median_ms=10.1,
        steady_state={"is_steady": True, "start": 14, "median_ms": 10.0},
        modes=[{"median_ms": 10.0, "share": 0.7}, {"median_ms": 12.9, "share": 0.3}],
    )
    latency = client.get(f"{address}/json/").json()["meta"]["latency"]
    assert (latency["median_ms"], latency["steady_state"]["start"]) == (10.1, 14)
    assert [mode["share"] for mode in latency["modes"]] == [0.7, 0.3]
    assert latency["interval"] is None
    report = client.get(f"{address}/report/").text
    assert "steady after 14 iterations, with a median of 10.0 ms" in report
    assert "2 modes: 10.0 ms (70 %), 12.9 ms (30 %)" in report


def test_the_report_of_a_task_has_device_files_and_advice(client, task_profile):
    text = client.get(f"/profiles/{task_profile.pk}/export/report/").text
    task = task_profile.attempt.task
    for fact in (task.worker.name, "1.13.0", "net.mge", "Recommendations", f"#{task.pk}"):
        assert fact in text


def test_report_and_json_have_the_peak_memory(client, task_profile):
    address = f"/profiles/{task_profile.pk}/export"
    assert "<dt>Peak memory</dt><dd>not recorded</dd>" in client.get(f"{address}/report/").text
    task_profile.attempt.host_memory_bytes = 149 << 20
    task_profile.attempt.save()
    assert "<dt>Peak memory</dt><dd>149 MiB</dd>" in client.get(f"{address}/report/").text
    assert client.get(f"{address}/json/").json()["meta"]["host_memory_bytes"] == 149 << 20


def test_an_import_has_no_peak_memory(client, imported):
    assert "peak-memory" not in client.get(f"/profiles/{imported.pk}/").text
    assert "Peak memory" not in client.get(f"/profiles/{imported.pk}/export/report/").text


def test_every_link_of_the_export_menu_works(client, task_profile):
    page = whole_page(client, f"/tasks/{task_profile.attempt.task_id}/")
    menu = re.search(r'<details[^>]*id="export".*?</details>', page, re.DOTALL)[0]
    links = re.findall(r'href="([^"]+)"', menu)
    assert len(links) == len(FORMATS) + 2
    assert {client.get(link).status_code for link in links} == {200, 302}


def test_the_command_exports_files_and_tasks(task_profile, tmp_path):
    file = DATA / "profiles" / "resnet18.json"
    task, out = task_profile.attempt.task_id, tmp_path / "a.json"
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
        ("--profile 999", "has no profile", 2),
        ("--profile no-such-file.json", "No such file", 1),
        ("--profile {bad}", "JSON", 1),
        ("--profile {good} --query name=(", "cannot be computed", 1),
        ("--profile {good} --format parquet", "csv, json, trace, report, text", 2),
        ("--profile {good} --all", "excludes numbers, filters and", 2),
        ("--profile {good} --rows operator", "excludes numbers, filters and", 2),
        ("--all --query type=Reduce", "--profile", 2),
        ("--all --format report", "csv, json, parquet", 2),
    ],
)
def test_the_command_refuses_invalid_arguments(tmp_path, arguments, message, code):
    command_line = arguments.format(
        bad=DATA / "bad/profiles/not_json.json", good=DATA / "profiles/tiny.json"
    )
    with pytest.raises(CommandError, match=message) as caught:
        call_command("export", *shlex.split(command_line), "-o", str(tmp_path / "a.csv"))
    assert (caught.value.returncode, list(tmp_path.iterdir())) == (code, [])
