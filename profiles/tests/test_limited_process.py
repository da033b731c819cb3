"""The process with limits that reads files: its results, its errors, and its limits."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec
import psutil
import pytest

from profiles.analysis.errors import AnalysisError
from profiles.formats.errors import ProfileFormatError
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


def derive_files(*files: bytes | None) -> DerivedData:
    """Store the files and derive their data; None is a missing file."""
    names = ["profile.json", *(f"profile-{n}.json" for n in range(2, len(files) + 1))]
    for name, data in zip(names, files, strict=True):
        if data is not None:
            object_store.write(f"attempts/x/{name}", data)
    return derive([(name, f"attempts/x/{name}") for name in names])


def error_of(*files: bytes) -> ProfileFormatError:
    with pytest.raises(ProfileFormatError) as caught:
        derive_files(*files)
    return caught.value


def left_out(result: DerivedData) -> list[tuple[str, str]]:
    return [(entry.name, entry.code) for entry in result.data.left_out]


@lru_cache(maxsize=1)
def many_operators(count: int = 300_000) -> bytes:
    """Return a small file that takes much time and memory to read."""
    times = ",".join(f'"{n}":{{"c":{{"start":0.0,"end":1e-6}}}}' for n in range(count))
    operators = ",".join(
        f'"{n}":{{"name":"o","type":"E","id":"{n}","input":[],"output":[]}}' for n in range(count)
    )
    return (
        f'{{"profiler":{{"device":{{{times}}},"host":{{}}}},'
        f'"graph_exec":{{"operator":{{{operators}}},"var":{{}}}}}}'
    ).encode()


def test_passes_are_merged_and_archived():
    first = good_profile("resnet18")
    result = derive_files(first, another_pass(first, 1), another_pass(first, 2))
    assert result.data.passes == ("profile.json", "profile-2.json", "profile-3.json")
    assert result.data.device.end_s.shape == (3, 173)
    assert result.data.columns_of_pass(0).names == parse(first).names
    assert len(result.data.graph.variables) > 173
    assert len(result.archive) < len(first)


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_gives_the_error_of_its_parser(name):
    data = bad_profile(name)
    expected = None
    try:
        parse(data)
    except ProfileFormatError as error:
        expected = error
    try:
        result = derive_files(data)
    except ProfileFormatError as error:
        assert expected is not None
        assert (error.code, error.detail) == (expected.code, expected.detail)
    except AnalysisError as error:
        assert error.code == "device_total_zero_opencl"
    else:
        assert expected is None
        assert result.data.columns.names == parse(data).names


@pytest.mark.exhaustive
def test_a_file_over_the_memory_limit_is_refused(settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 220 << 20
    error = error_of(many_operators())
    assert error.code == "too_heavy"
    assert "220 MiB" in error.detail
    assert len(derive_files(good_profile("resnet18")).data.columns) == 173


@pytest.mark.exhaustive
def test_a_file_over_the_time_limit_is_refused(settings):
    settings.PROFILE_PARSE_TIME_S = 1
    error = error_of(many_operators(600_000))
    assert error.code == "too_heavy"
    assert "takes more than" in error.detail


def processes() -> list[psutil.Process]:
    """Return the processes that the fork server started."""
    return psutil.Process(readers.server._process.pid).children(recursive=True)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def when_reading(action):
    """Call `action` with the watcher and the reader as soon as a reader runs during the block."""

    def wait_and_act():
        wait_until(lambda: len(processes()) == 2)
        watcher, reader = sorted(processes(), key=lambda process: process.create_time())
        # the fork ignores SIGINT at first; it lowers its priority after it has reset the handler
        wait_until(lambda: reader.nice() != watcher.nice())
        action(watcher, reader)

    derive_files(good_profile("lstm"))  # start the server
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(wait_and_act)
        yield
    future.result()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_reader_is_no_fault_of_the_profile(number):
    with (
        when_reading(lambda watcher, reader: reader.send_signal(number)),
        pytest.raises(DomainError, match="reading_stopped"),
    ):
        derive_files(many_operators())


def test_an_unknown_exit_status_is_no_fault_of_the_profile():
    with (
        when_reading(lambda watcher, reader: watcher.kill()),
        pytest.raises(DomainError, match="reading_stopped"),
    ):
        derive_files(many_operators(60_000))


def test_a_killed_fork_server_is_restarted():
    derive_files(good_profile("lstm"))
    killed = readers.server._process.pid
    os.kill(killed, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(killed)], timeout=10)
    assert len(derive_files(good_profile("resnet18")).data.columns) == 173
    assert readers.server._process.pid != killed


def test_several_profiles_can_be_read_concurrently():
    for name in ("resnet18", "lstm"):
        object_store.write(f"attempts/{name}/profile.json", good_profile(name))
    jobs = [[("profile.json", f"attempts/{name}/profile.json")] for name in ("resnet18", "lstm")]
    with ThreadPoolExecutor(4) as pool:
        counts = [len(result.data.columns) for result in pool.map(derive, jobs * 4)]
    assert counts[:2] * 4 == counts
    assert counts[0] == 173 != counts[1]


def test_a_reader_is_stopped_after_the_timeout_of_the_site(tmp_path):
    (tmp_path / "profile.json").write_bytes(many_operators())
    job = ParseJob(("profile.json",), (), 1 << 30, 4 << 30, 600)
    (tmp_path / "order.json").write_bytes(msgspec.json.encode(job))
    with pytest.raises(TimeoutError):
        readers.server.read(tmp_path, 0.3)
    wait_until(lambda: not processes())


def test_a_profile_larger_than_the_cache_is_refused(settings):
    settings.PROFILE_CACHE_BYTES = 100_000
    error = error_of(good_profile("resnet18"))
    assert error.code == "too_heavy"
    assert "pages" in str(error)


def test_a_pass_over_the_memory_limit_is_omitted(settings):
    settings.PROFILE_PARSE_MEMORY_BYTES = 220 << 20
    result = derive_files(good_profile("resnet18"), many_operators())
    assert result.data.passes == ("profile.json",)
    assert left_out(result) == [("profile-2.json", "too_heavy")]


def test_the_first_readable_pass_determines_the_graph():
    first = good_profile("resnet18")
    result = derive_files(b"{", None, first, change_operator(another_pass(first, 1), name="x"))
    assert result.data.passes == ("profile-3.json",)
    assert left_out(result) == [
        ("profile-2.json", "object_missing"),
        ("profile.json", "not_json"),
        ("profile-4.json", "other_graph"),
    ]


def test_without_readable_passes_the_error_is_that_of_the_first():
    assert error_of(b"[]", b"{").code == "not_a_profile"
    with pytest.raises(DomainError, match="object_missing"):
        derive([("profile.json", "attempts/none/profile.json")])
    with pytest.raises(DomainError, match="object_missing"):
        derive([])


def test_the_total_of_zero_medians_is_zero():
    passes = [make_profile({"0": 0.0, "1": 0.0, "2": 0.0}) for _ in range(3)]
    for number, profile in enumerate(passes):
        next(iter(profile["profiler"]["device"][str(number)].values()))["end"] = 0.01
    result = derive_files(*map(to_json, passes))
    assert result.data.columns.device.total_s() == 0


def test_sizes_are_checked_before_reading(settings):
    first = good_profile("lstm")
    settings.PROFILE_PASSES_LIMIT_BYTES = len(first) * 3 // 2
    result = derive_files(first, first)
    assert left_out(result) == [("profile-2.json", "object_too_large")]
    settings.PROFILE_SIZE_LIMIT_BYTES = 1000
    with pytest.raises(DomainError, match="object_too_large"):
        derive_files(first)


def test_the_reader_has_no_secrets_and_does_not_import_django(monkeypatch):
    monkeypatch.setenv("S3_SECRET_ACCESS_KEY", "not-for-readers")
    readers.server.end()
    derive_files(good_profile("lstm"))
    environment = psutil.Process(readers.server._process.pid).environ()
    assert "not-for-readers" not in environment.values()
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    program = f"import sys, {fork_server.__name__}; print('django' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert completed.stdout == b"False\n"


def test_temporary_files_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    derive_files(good_profile("lstm"))
    error_of(b"{")
    assert list(Path(tmp_path).iterdir()) == []


def test_names_with_markup_and_newlines_are_unchanged():
    data = good_profile("hostile_names")
    assert derive_files(data).data.columns.names == parse(data).names
