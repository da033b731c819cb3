"""Descriptions of runtimes: version and capabilities, or the problem."""

from pathlib import Path

import pytest

from agent.runtimes.command import command_for, legacy_arguments
from agent.runtimes.describe import describe_binary, describe_wheel, parse_help, parse_legacy_help
from agent.runtimes.tests.fake_load_and_run import install_fake


def test_a_wheel_is_described(tmp_path, make_script):
    python = make_script(
        tmp_path / "python", """echo noise; echo 'mgw-runtime:["1.13.0", "3.10.13"]'"""
    )
    described = describe_wheel(str(python))
    assert (described.version, described.kind, described.python) == ("1.13.0", "wheel", "3.10.13")
    assert described.problem is None


@pytest.mark.parametrize(
    ("body", "timeout_s", "problem"),
    [
        ("echo \"No module named 'megenginelite'\" >&2; exit 1", 30, "No module"),
        ("exit 7", 30, "exit code 7"),
        ("exec sleep 60", 0.3, "longer than 0.3 s"),
    ],
)
def test_an_unusable_wheel_has_a_problem(body, timeout_s, problem, tmp_path, make_script):
    described = describe_wheel(str(make_script(tmp_path / "python", body)), timeout_s=timeout_s)
    assert problem in str(described.problem)
    assert described.version == ""


@pytest.mark.parametrize(
    ("answer", "devices"),
    [
        ("mgw-devices:[2]", ("cpu", "cuda0", "cuda1")),
        ("mgw-devices:[0]", ("cpu",)),
        ("mgw-devices:nonsense", ("cpu",)),
        ("no answer: the search for GPUs took the process with it", ("cpu",)),
    ],
)
def test_the_devices_of_a_wheel_are_described(answer, devices, tmp_path, make_script):
    body = f"""echo 'mgw-runtime:["1.13.0", "3.10.13"]'; echo '{answer}'; exit 9"""
    described = describe_wheel(str(make_script(tmp_path / "python", body)))
    assert (described.version, described.devices) == ("1.13.0", devices)
    assert described.builds == (("cuda", "tensorrt") if "cuda0" in devices else ())


def test_a_missing_interpreter_is_a_problem(tmp_path):
    assert "No such file" in str(describe_wheel(str(tmp_path / "none")).problem)


@pytest.mark.parametrize(
    "body",
    [
        "echo 'load_and_run on MegBrain 1.13.0'",
        # the real 1.13 prints its version only in the log of a run, which aborts
        """[ "$1" = no-such-model.mge ] && echo 'using MegBrain 1.13.0(0) and MegDNN 9.3.0' >&2 && \
kill -ABRT $$; echo load_and_run""",
    ],
)
def test_a_binary_is_described(body, tmp_path, make_script):
    described = describe_binary(str(make_script(tmp_path / "load_and_run", body)))
    assert (described.version, described.kind, described.problem) == ("1.13.0", "binary", None)


@pytest.mark.parametrize(
    ("body", "timeout_s", "problem"),
    [("echo hello", 30, "hello"), ("exec sleep 60", 0.3, "did not exit within 0.3 s")],
)
def test_a_binary_without_a_version_is_a_problem(body, timeout_s, problem, tmp_path, make_script):
    described = describe_binary(str(make_script(tmp_path / "lar", body)), timeout_s=timeout_s)
    assert problem in str(described.problem)


def test_a_binary_that_is_missing_or_not_executable_is_a_problem(tmp_path):
    (tmp_path / "text").write_text("")
    assert "is not a file" in str(describe_binary(str(tmp_path / "none")).problem)
    assert "not executable" in str(describe_binary(str(tmp_path / "text")).problem)


def test_the_version_of_gflags_is_ignored(tmp_path, make_script):
    script = make_script(tmp_path / "load_and_run", "echo load_and_run version 1.0")
    assert "does not print its version" in str(describe_binary(str(script)).problem)


@pytest.mark.parametrize(
    ("version", "style", "has", "has_not"),
    [
        ("1.6.0", "legacy", "enable_nchw4", "cuda"),
        ("1.7.0", "gflags", "android_nn", "batch_size"),
        ("1.9.1", "gflags", "fitting", "android_nn"),
        ("1.10.0", "gflags", "packed_model_dump", "mdl"),
        ("1.11.1", "gflags", "mdl", "enable_ioc16"),
        ("1.13.0", "gflags", "enable_ioc16", "tensorrt"),
    ],
)
def test_binaries_of_all_versions_are_described(version, style, has, has_not, tmp_path):
    described = describe_binary(str(install_fake(tmp_path, version)))
    assert (described.version, described.style, described.problem) == (version, style, None)
    assert has in described.flags and has_not not in described.flags
    assert {"iter", "profile", "input", "cpu"} <= set(described.flags)
    assert not {"help", "flagfile", "version", "layout_transform_verify"} & set(described.flags)
    assert {"fast_run", "json"} <= set(described.builds)


def test_the_builds_of_a_binary_follow_from_its_flags(tmp_path):
    plain = describe_binary(str(install_fake(tmp_path)))
    other = describe_binary(str(install_fake(tmp_path, "1.13.0", "-nocuda-tensorrt")))
    assert "cuda" in plain.builds and "tensorrt" not in plain.builds
    assert "tensorrt" in other.builds and "cuda" not in other.builds


def test_flags_are_parsed_across_line_breaks():
    flags = parse_help(
        """load_and_run: usage

  Flags from /home/code/a.cpp:
    -input (set the inputs, type: any (see the guide), and
      some more) type: string default: ""
    -iter (iterations) type: int32 default: 10 currently: 3
    -no (a broken one) type: int32

  Flags from gflags.cc:
    -help (show help) type: bool default: false
"""
    )
    assert flags == {"input", "iter"}


def test_a_text_other_than_help_has_no_flags():
    for text in ("", "hello", "    -" * 100_000, "usage: x\n  --cpu\n"):
        assert parse_help(text) == parse_legacy_help(text) == frozenset()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["m.mge"], ["m.mge"]),
        (["m.mge", "--iter=3", "--cpu"], ["m.mge", "--iter", "3", "--cpu"]),
        (["m.mge", "--fast_run"], ["m.mge", "--fast-run"]),
        (
            ["m.mge", "--input=a:x_1.npy;b:y=1.npy"],
            ["m.mge", "--input", "a:x_1.npy;b:y=1.npy"],
        ),
        (
            ["m.mge", "--model_info", "--multi_thread_core_ids=0,1", "--multithread=2"],
            ["m.mge", "--multithread", "2", "--multi-thread-core-ids", "0,1", "--model-info"],
        ),
    ],
)
def test_arguments_are_converted_for_old_versions(arguments, expected):
    assert legacy_arguments(arguments) == expected


@pytest.mark.parametrize(("machine", "target"), [("x86_64", "x86"), ("aarch64", "arm")])
def test_layout_transform_of_old_versions_names_the_architecture(machine, target, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert legacy_arguments(["m", "--layout_transform=cpu"]) == ["m", "--layout-transform", target]


def test_command_for_returns_the_command_of_a_runtime():
    assert command_for("binary", "/opt/mge/load_and_run") == ["/opt/mge/load_and_run"]
    python, folder = command_for("wheel", "/venv/bin/python")
    assert python == "/venv/bin/python"
    assert (Path(folder) / "__main__.py").is_file()


@pytest.mark.megengine
def test_the_real_wheel_is_described(megengine_python):
    described = describe_wheel(megengine_python)
    assert described.problem is None
    assert described.version.startswith("1.")
    assert described.devices[0] == "cpu"
    assert ("cuda" in described.builds) == ("cuda0" in described.devices)
