"""`manage.py profile_analyze` compared with recorded output of the original tool."""

import os
import re
import shlex
import subprocess
import sys
import threading
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from profiles.analysis.errors import AnalysisError
from profiles.formats.errors import ProfileFormatError
from profiles.management.commands.profile_analyze import Command, analysis
from profiles.tests.make import NODE, make_profile, to_json
from testdata import DATA, commands

ROOT = Path(__file__).resolve().parents[2]
REFUSALS = (AnalysisError, ProfileFormatError, re.error)
#: commands whose rows the original tool orders wrongly because of nan
DISORDERED = {
    ("resnet18", "-t 25 --order-by +bandwidth"),
    ("quantized", "-t 25 --order-by +bandwidth"),
}
#: the original tool and ours sort rows with nan by comparisons that are all false, so their order
#: follows from the algorithm of `sorted`, which changed in Python 3.13; recorded was 3.10
SORTS_NAN_AS_RECORDED = sys.version_info < (3, 13)
KINDS = ("profiles", "bad/profiles")


def parse_arguments(file: Path, arguments: str) -> Namespace:
    parser = Command().create_parser("manage.py", "profile_analyze")
    return parser.parse_args([str(file), *shlex.split(arguments)])


def run_analysis(file: Path, arguments: str) -> str:
    return analysis(parse_arguments(file, arguments))


def run_command(command: dict[str, Any], kind: str) -> str:
    file = DATA / kind / f"{command['profile']}.json"
    return run_analysis(file, command["arguments"])


def profile_params(kind: str) -> list[Any]:
    names = dict.fromkeys(command["profile"] for command in commands(kind))
    return [pytest.param(kind, name, id=name) for name in names]


RECORDED = [*profile_params("profiles"), *profile_params("bad/profiles")]


def commands_of(kind: str, name: str) -> list[dict[str, Any]]:
    return [command for command in commands(kind) if command["profile"] == name]


@pytest.mark.parametrize(("kind", "name"), RECORDED)
def test_output_equals_that_of_the_original_tool(kind: str, name: str) -> None:
    differing = []
    for command in commands_of(kind, name):
        key = (name, command["arguments"])
        if command["status"] or "--help" in command["arguments"] or key in DISORDERED:
            continue
        if "nan" in command["stdout"] and not SORTS_NAN_AS_RECORDED:
            continue
        try:
            same = run_command(command, kind).encode() == command["stdout"].encode()
        except REFUSALS as error:
            same = False
            command = {**command, "ours": str(error)}
        if not same:
            ours = command.get("ours", "prints something else")
            differing.append((name, command["arguments"], ours))
    assert differing == []


def test_over_a_thousand_recorded_commands_succeeded() -> None:
    succeeded = [c for kind in KINDS for c in commands(kind) if c["status"] == 0]
    assert len(succeeded) > 1_000


@pytest.mark.parametrize(("kind", "name"), RECORDED)
def test_commands_that_crash_the_original_tool_print_or_explain(kind: str, name: str) -> None:
    for command in commands_of(kind, name):
        if command["status"] != 1:
            continue
        try:
            assert run_command(command, kind).endswith("\n")
        except REFUSALS as error:
            assert str(error), command["arguments"]


@pytest.mark.parametrize("arguments", ["--opr-name (", "--order-by name", "--aggregate-by type"])
def test_invalid_arguments_fail_on_real_profiles(arguments: str) -> None:
    with pytest.raises(REFUSALS):
        run_analysis(DATA / "profiles" / "tiny.json", arguments)


def test_other_crashes_of_the_original_tool_on_real_profiles_print_a_result() -> None:
    invalid = re.compile(r"--opr-name \(|order-by (\+?info|name|type|no_such_column|\+|in_layouts)")
    refused = []
    for command in commands("profiles"):
        arguments = command["arguments"]
        if (
            command["status"] != 1
            or invalid.search(arguments)
            or arguments == "--aggregate-by type"
        ):
            continue
        try:
            run_command(command, "profiles")
        except REFUSALS as error:
            refused.append((command["profile"], arguments, str(error)))
    assert refused == []


@pytest.mark.parametrize(("name", "arguments"), sorted(DISORDERED))
def test_nan_does_not_disorder_other_rows(name: str, arguments: str) -> None:
    command = next(c for c in commands_of("profiles", name) if c["arguments"] == arguments)
    original = bandwidths(command["stdout"])
    ours = bandwidths(run_command(command, "profiles"))
    assert in_order(ours)
    # the original tool truncates larger values here, or its rows are out of order
    assert max(original) > max(ours) or not in_order(original)


def bandwidths(text: str) -> list[float]:
    """Return the values of column 7 of the table in bytes/s; nan is left out."""
    units = {"byte/s": 0, "KiB/s": 1, "MiB/s": 2, "GiB/s": 3}
    cells = [line.split("│")[7].strip() for line in text.split("\n") if line.startswith("│ ")]
    pairs = [(n, u) for n, u in pairwise(cells) if u in units]
    return [float(n) * 1024 ** units[u] for n, u in pairs if n != "nan"]


def in_order(values: list[float]) -> bool:
    # printed numbers are rounded
    return all(low <= high * 1.01 for low, high in pairwise(values))


def test_help_equals_that_of_the_original_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = next(c for c in commands("profiles") if c["arguments"] == "--help")
    text = Command().create_parser("manage.py", "profile_analyze").format_help()

    def without_order(help_text: str) -> str:
        # the original tool prints these choices in the order of a set
        text = re.sub(r"--print-only \{[^}]*\}", "--print-only {}", help_text)
        # Python 3.13 names the value of an option once: `-t, --top TOP`
        return re.sub(r"-(\w) [A-Z]+, (--\w+ [A-Z]+) +", r"-\1, \2 ", re.sub(r" +", " ", text))

    assert without_order(text) == without_order(command["stdout"])


def test_options_can_be_abbreviated() -> None:
    file = DATA / "profiles" / "tiny.json"
    parsed = parse_arguments(file, "--s --p host --aggregate sum --ord +memory")
    assert (parsed.show_host, parsed.print_only) == (True, "host")
    assert (parsed.aggregate, parsed.order_by) == ("sum", "+memory")


def write_profile(folder: Path, profile: dict[str, Any]) -> Path:
    file = folder / "profile.json"
    file.write_bytes(to_json(profile))
    return file


def make_copy_profile() -> dict[str, Any]:
    nodes = {
        "gpu0": {"start": 0.0, "kern": 0.25, "end": 1.0},
        "gpu1": {"start": 0.0, "kern": 0.5, "end": 0.75},
    }
    profile = make_profile({"1": nodes, "2": {NODE: {"start": 0, "kern": 0.5, "end": 2}}, "3": 4.0})
    for key in ("1", "2"):
        profile["graph_exec"]["operator"][key]["type"] = "Copy"
    return profile


def test_copy_times_have_sum_and_average(tmp_path: Path) -> None:
    file = write_profile(tmp_path, make_copy_profile())
    text = run_analysis(file, "--copy-time --print-only summary")
    assert "copy time          tot=3.0000 avg=1.5000" in text
    assert "copy wait time     tot=1.0000 avg=0.5000" in text


@pytest.mark.parametrize("arguments", ["--type Elemwise", "--opr-name nothing", "--type Nope"])
def test_the_summary_says_that_there_are_no_copies(tmp_path: Path, arguments: str) -> None:
    file = write_profile(tmp_path, make_copy_profile())
    text = run_analysis(file, f"--copy-time --print-only summary {arguments}")
    assert "copy time          no Copy operators" in text
    assert "copy wait time     no Copy operators" in text


def test_groups_are_printed_with_their_count(tmp_path: Path) -> None:
    file = write_profile(tmp_path, make_copy_profile())
    arguments = "--dump-only-opr --aggregate sum --aggregate-by type --print-only device"
    assert run_analysis(file, arguments) == "Elemwise 1 N/A\nCopy 2 N/A\n"


def test_infinite_numbers_have_no_bar_in_a_wiki_table(tmp_path: Path) -> None:
    footprint = {key: {"computation": 10**9, "memory": 1024**2} for key in ("1", "2")}
    file = write_profile(tmp_path, make_profile({"1": 0.0, "2": 1.0}, footprint=footprint))
    slow, instant = run_analysis(file, "--wiki --print-only device").split("\n")[2:4]
    assert slow.count("#" * 15) == 3
    assert "#" not in instant
    assert "inf" in instant


def test_an_empty_wiki_table_has_headers(tmp_path: Path) -> None:
    file = write_profile(tmp_path, make_profile({"1": 1.0}))
    lines = run_analysis(file, "--wiki --print-only device --type Nope").split("\n")
    assert len(lines) == 3
    assert lines[0].startswith("| #   | time   | ratio ")


def run_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a minimal environment, as in a fresh clone."""
    environment = {"PATH": os.environ["PATH"], "PYTHONUTF8": "1", **variables}
    return subprocess.run(
        [sys.executable, "manage.py", "profile_analyze", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_the_command_needs_no_settings() -> None:
    completed = run_process(str(DATA / "profiles" / "resnet18.json"), "-t", "5")
    command = next(c for c in commands_of("profiles", "resnet18") if c["arguments"] == "-t 5")
    assert (completed.returncode, completed.stderr) == (0, "")
    assert completed.stdout.encode() == command["stdout"].encode()


def test_a_profile_is_read_from_a_pipe(tmp_path: Path) -> None:
    profile = DATA / "profiles" / "resnet18.json"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(profile.read_bytes(),), daemon=True)
    writer.start()
    text = run_analysis(pipe, "-t 5")
    writer.join()
    # a pipe contains less at once
    assert profile.stat().st_size > 1 << 16
    assert text == run_analysis(profile, "-t 5")


def test_control_characters_of_names_do_not_reach_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = write_profile(tmp_path, make_profile({"1": 1.0}, names={"1": "a\x1b[2Jb"}))
    call_command("profile_analyze", str(file))
    assert "a\x1b[2Jb" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    call_command("profile_analyze", str(file))
    assert "a\ufffd[2Jb" in capsys.readouterr().out


def test_the_process_ends_with_the_exit_code_of_the_command() -> None:
    completed = run_process(str(DATA / "profiles" / "nowhere.json"))
    assert (completed.returncode, completed.stdout) == (1, "")
    assert len(completed.stderr.splitlines()) == 1
    assert "nowhere.json cannot be read" in completed.stderr


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command as `manage.py` does, and return its exit code and the output to stderr."""
    with pytest.raises(SystemExit) as caught:
        Command().run_from_argv(["manage.py", "profile_analyze", *arguments])
    printed = capsys.readouterr()
    assert printed.out == ""
    return caught.value.code, printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profiles/nowhere.json"], "nowhere.json cannot be read"),
        (["bad/profiles/truncated_last_byte.json"], "not JSON"),
        (["profiles/tiny.json", "--order-by", "colour"], "'colour'"),
        (["profiles/tiny.json", "--opr-name", "("], "unterminated subpattern"),
    ],
)
def test_a_failure_prints_one_line_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, text = fail(capsys, str(DATA / arguments[0]), *arguments[1:])
    assert code == 1
    assert len(text.splitlines()) == 1
    assert message in text


def test_an_invalid_option_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = fail(capsys, "profile.json", "--aggregate", "median")
    assert code == 2
    assert "invalid choice: 'median'" in text


def test_a_huge_file_is_refused_without_reading_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "huge.json"
    with file.open("wb") as stream:
        stream.truncate(40 << 30)
    code, text = fail(capsys, str(file))
    assert code == 1
    assert f"The file has {40 << 30} bytes; the limit" in text
