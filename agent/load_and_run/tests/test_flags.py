"""The command line is parsed as gflags parses it."""

import pytest
from load_and_run.errors import FlagError
from load_and_run.flags import FLAGS, parse, usage


@pytest.mark.parametrize(
    "arguments",
    [
        ["m.mge", "--iter=3"],
        ["--iter", "3", "m.mge"],
        ["-iter", "3", "m.mge"],
        ["-iter=3", "m.mge"],
        ["--iter=0x3", "m.mge"],
        ["--iter=7", "m.mge", "--iter=3"],
    ],
)
def test_all_spellings_of_a_number_are_parsed(arguments: list[str]) -> None:
    flags, positional = parse(arguments)
    assert flags["iter"] == 3
    assert positional == ["m.mge"]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("--cpu", True), ("--cpu=yes", True), ("--cpu=0", False), ("--nocpu", False)],
)
def test_all_spellings_of_a_bool_are_parsed(argument: str, expected: bool) -> None:
    assert parse([argument])[0]["cpu"] is expected


def test_a_bool_never_takes_the_next_argument() -> None:
    flags, positional = parse(["--cpu", "true", "m.mge"])
    assert flags["cpu"] is True
    assert positional == ["true", "m.mge"]


def test_dashes_in_flags_are_underscores() -> None:
    flags, _ = parse(["--warmup-iter=4", "--cpu-default"])
    assert (flags["warmup_iter"], flags["cpu_default"]) == (4, True)


def test_two_dashes_end_the_flags() -> None:
    assert parse(["--", "--iter=3"])[1] == ["--iter=3"]


def test_without_arguments_flags_have_the_defaults_of_load_and_run() -> None:
    flags, positional = parse([])
    assert (flags["iter"], flags["warmup_iter"], flags["profile"], positional) == (10, 1, "", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "ERROR: unknown command line flag 'nope'"),
        (["--flagfile=x"], "ERROR: unknown command line flag 'flagfile'"),
        (["--iter", "abc"], "ERROR: illegal value 'abc' specified for int32 flag 'iter'"),
        (["--iter="], "ERROR: illegal value '' specified for int32 flag 'iter'"),
        (
            ["--iter=3000000000"],
            "ERROR: illegal value '3000000000' specified for int32 flag 'iter'",
        ),
        (["--cpu=maybe"], "ERROR: illegal value 'maybe' specified for bool flag 'cpu'"),
        (
            ["m.mge", "--iter"],
            "ERROR: flag '--iter' is missing its argument; flag description: iteration number for "
            "run model",
        ),
        (["--noiter"], "ERROR: boolean value (noiter) specified for int32 command line flag"),
        # these would never end
        (
            ["--iter=-1"],
            "ERROR: illegal value '-1' specified for int32 flag 'iter': it must not be negative",
        ),
        (
            ["--warmup_iter=-1"],
            "ERROR: illegal value '-1' specified for int32 flag 'warmup_iter': it must not be "
            "negative",
        ),
    ],
)
def test_invalid_flags_are_rejected_like_in_gflags(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize("full", [True, False])
def test_the_help_contains_all_flags(full: bool) -> None:
    assert all(f"-{name} " in usage(full) for name in FLAGS)
