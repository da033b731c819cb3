"""The process with limits that reads files: its results, its errors, and its limits."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from profiles.analysis.errors import AnalysisError
from profiles.analysis.totals import totals
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.profile_json import TableFile
from profiles.formats.load_and_run.reader import parse
from profiles.ingest import fork_server, readers
from profiles.ingest.build import DerivedData, derive
from profiles.ingest.limited_process import ParseJob
from profiles.tests.make import make_profile, to_json
from profiles.tests.passes import another_pass, change_operator
from testdata import DATA, bad_profile, good_profile
from webprofile.errors import DomainError
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.usefixtures("storage")

BAD = sorted(path.stem for path in (DATA / "bad" / "profiles").glob("*.json"))


def derived(*files: bytes | None) -> DerivedData:
    """Store the files and derive their data; None is a file that never arrived."""
    names = ["profile.json", *(f"profile-{n}.json" for n in range(2, len(files) + 1))]
    for name, data in zip(names, files, strict=True):
        if data is not None:
            object_store.write(f"attempts/x/{name}", data)
    return derive([(name, f"attempts/x/{name}") for name in names])


def many_operators(count: int) -> bytes:
    """Return a compact profile that is expensive to read."""
    times = ",".join(f'"{n}":{{"c":{{"start":0.0,"end":1e-6}}}}' for n in range(count))
    operators = ",".join(
        f'"{n}":{{"name":"o","type":"E","id":"{n}","input":[],"output":[]}}' for n in range(count)
    )
    return (
        f'{{"profiler":{{"device":{{{times}}},"host":{{}}}},'
        f'"graph_exec":{{"operator":{{{operators}}},"var":{{}}}}}}'
    ).encode()


def test_passes_are_merged_and_the_archive_is_what_was_read():
    first = good_profile("resnet18")
    result = derived(first, another_pass(first, 1), another_pass(first, 2))
    assert result.data.passes == ("profile.json", "profile-2.json", "profile-3.json")
    assert result.data.device.end_s.shape == (3, 173)
    assert result.data.columns_of_pass(0).names == parse(first).names
    assert len(result.data.graph.variables) > 173
    assert len(result.archive) < len(first)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_ends_as_its_parser_says_never_otherwise(name):
    data = bad_profile(name)
    expected = None
    try:
        parse(data)
    except ProfileFormatError as error:
        expected = error
    try:
        result = derived(data)
    except ProfileFormatError as error:
        assert expected is not None
        assert (error.code, error.detail) == (expected.code, expected.detail)
    except AnalysisError as error:
        assert error.code == "device_total_zero_opencl"
    else:
        assert expected is None
        assert result.data.columns.names == parse(data).names


def test_memory_beyond_the_limit_is_refused_and_the_site_goes_on(settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 220 << 20
    with pytest.raises(ProfileFormatError) as caught:
        derived(many_operators(200_000))
    assert caught.value.code == "too_heavy"
    assert "220 MiB" in caught.value.detail
    assert len(derived(good_profile("resnet18")).data.columns) == 173


def test_time_beyond_the_limit_is_refused(settings):
    settings.PROFILE_PARSE_TIME_S = 1
    with pytest.raises(ProfileFormatError) as caught:
        derived(many_operators(300_000))
    assert caught.value.code == "too_heavy"
    assert "takes more than" in caught.value.detail


def processes() -> list[psutil.Process]:
    """Return the processes that the fork server started."""
    return psutil.Process(readers.server._process.pid).children(recursive=True)


@contextmanager
def once_it_reads(act):
    """Call `act` with the watcher and the reader as soon as a reader runs during the block."""

    def wait_and_act():
        while len(running := processes()) < 2:
            time.sleep(0.01)
        watcher, reader = sorted(running, key=lambda process: process.create_time())
        # the fork ignores SIGINT at first; it lowers its priority after it has reset the handler
        while reader.nice() == watcher.nice():
            time.sleep(0.01)
        act(watcher, reader)

    derived(good_profile("lstm"))  # start the server
    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_reader_that_somebody_stops_says_nothing_of_the_profile(number):
    with (
        once_it_reads(lambda watcher, reader: reader.send_signal(number)),
        pytest.raises(DomainError, match="reading_stopped"),
    ):
        derived(many_operators(300_000))


def test_a_reader_whose_exit_status_is_unknown_says_nothing_of_the_profile():
    with (
        once_it_reads(lambda watcher, reader: watcher.kill()),
        pytest.raises(DomainError, match="reading_stopped"),
    ):
        derived(many_operators(60_000))


def test_a_server_of_forks_that_was_killed_is_started_again():
    derived(good_profile("lstm"))
    killed = readers.server._process.pid
    os.kill(killed, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(killed)], timeout=10)
    assert len(derived(good_profile("resnet18")).data.columns) == 173
    assert readers.server._process.pid != killed


def test_several_profiles_are_read_at_the_same_time():
    for name in ("resnet18", "lstm"):
        object_store.write(f"attempts/{name}/profile.json", good_profile(name))
    jobs = [[("profile.json", f"attempts/{name}/profile.json")] for name in ("resnet18", "lstm")]
    with ThreadPoolExecutor(4) as pool:
        counts = [len(result.data.columns) for result in pool.map(derive, jobs * 4)]
    assert counts[:2] * 4 == counts
    assert counts[0] == 173 != counts[1]


def test_no_reader_goes_on_for_a_site_that_does_not_wait_any_more(settings, tmp_path):
    (tmp_path / "profile.json").write_bytes(many_operators(400_000))
    order = ParseJob(("profile.json",), (), 1 << 30, 4 << 30, 600)
    (tmp_path / "order.json").write_bytes(msgspec.json.encode(order))
    with pytest.raises(TimeoutError):
        readers.server.read(tmp_path, 0.3)
    deadline = time.monotonic() + 10
    while processes():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_would_take_too_much_memory_in_a_page_is_refused(settings):
    settings.PROFILE_CACHE_BYTES = 100_000
    with pytest.raises(ProfileFormatError, match="pages") as caught:
        derived(good_profile("resnet18"))
    assert caught.value.code == "too_heavy"


def test_a_pass_that_is_too_heavy_does_not_take_the_others_along(settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 220 << 20
    result = derived(good_profile("resnet18"), many_operators(200_000))
    assert result.data.passes == ("profile.json",)
    assert [(entry.name, entry.code) for entry in result.data.left_out] == [
        ("profile-2.json", "too_heavy")
    ]


def test_brackets_a_hundred_thousand_deep_are_refused_wherever_they_stand():
    deep = b"[" * 100_000 + b"]" * 100_000
    inside = to_json(make_profile({"0": 0.01}, footprint={"0": {"param": {"x": "HERE"}}}))
    for data, code in ((deep, "not_a_profile"), (inside.replace(b'"HERE"', deep), "too_deep")):
        with pytest.raises(ProfileFormatError) as caught:
            derived(data)
        assert caught.value.code == code


def test_a_damaged_graph_costs_the_graph_and_not_the_table():
    profile = make_profile({"0": 0.01})
    profile["graph_exec"]["mem_chunk"] = 7
    result = derived(to_json(profile))
    assert result.data.columns.device.end_s.tolist() == [0.01]
    assert "mem_chunk" in result.data.graph.problems


def test_the_first_pass_that_can_be_read_leads():
    first = good_profile("resnet18")
    result = derived(b"{", None, first, change_operator(another_pass(first, 1), name="x"))
    assert result.data.passes == ("profile-3.json",)
    assert [(entry.name, entry.code) for entry in result.data.left_out] == [
        ("profile-2.json", "object_missing"),
        ("profile.json", "not_json"),
        ("profile-4.json", "other_graph"),
    ]


def test_without_any_readable_pass_the_first_ones_fault_is_told():
    with pytest.raises(ProfileFormatError) as caught:
        derived(b"[]", b"{")
    assert caught.value.code == "not_a_profile"
    with pytest.raises(DomainError, match="object_missing"):
        derive([("profile.json", "attempts/none/profile.json")])
    with pytest.raises(DomainError, match="object_missing"):
        derive([])


def test_passes_whose_medians_are_all_zero_have_a_total_of_zero():
    passes = [make_profile({"0": 0.0, "1": 0.0, "2": 0.0}) for _ in range(3)]
    for number, profile in enumerate(passes):
        next(iter(profile["profiler"]["device"][str(number)].values()))["end"] = 0.01
    result = derived(*map(to_json, passes))
    assert totals(result.data.columns).device_s == 0


def test_sizes_are_looked_at_before_anything_is_read(settings):
    first = good_profile("lstm")
    settings.PROFILE_PASSES_LIMIT_BYTES = len(first) * 3 // 2
    result = derived(first, first)
    assert [(entry.name, entry.code) for entry in result.data.left_out] == [
        ("profile-2.json", "object_too_large")
    ]
    settings.PROFILE_SIZE_LIMIT_BYTES = 1000
    with pytest.raises(DomainError, match="object_too_large"):
        derived(first)


def test_the_reader_is_told_nothing_secret_and_knows_no_django(monkeypatch):
    monkeypatch.setenv("S3_SECRET_ACCESS_KEY", "not-for-readers")
    readers.server.end()
    derived(good_profile("lstm"))
    environment = psutil.Process(readers.server._process.pid).environ()
    assert "not-for-readers" not in environment.values()
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    program = f"import sys, {fork_server.__name__}; print('django' in sys.modules)"
    known = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert known.stdout == b"False\n"


def test_temporary_files_are_gone_when_all_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    derived(good_profile("lstm"))
    with pytest.raises(ProfileFormatError):
        derived(b"{")
    assert list(Path(tmp_path).iterdir()) == []


def test_names_with_markup_bidi_and_newlines_come_back_as_they_are():
    data = good_profile("hostile_names")
    assert derived(data).data.columns.names == tuple(
        operator.name for operator in _timed_operators(msgspec.json.decode(data, type=TableFile))
    )


def _timed_operators(file: TableFile):
    profiler = file.profiler
    timed = profiler.device.keys() | profiler.host.keys() | profiler.opr_footprint.keys()
    return [operator for key, operator in file.graph_exec.operator.items() if key in timed]
