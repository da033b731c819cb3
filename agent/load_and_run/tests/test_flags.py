"""The command line is parsed as the agent writes it."""

import pytest
from load_and_run.errors import FlagError
from load_and_run.flags import parse


def test_flags_and_the_model_are_parsed():
    flags, positional = parse(["m.mge", "--iter=3", "--range=2.5", "--cpu", "--io_dump=a=b"])
    assert positional == ["m.mge"]
    given = [flags[name] for name in ("iter", "range", "cpu", "io_dump")]
    assert given == [3, 2.5, True, "a=b"]


def test_without_arguments_flags_have_the_defaults_of_load_and_run():
    flags, positional = parse([])
    assert (flags["iter"], flags["warmup_iter"], flags["profile"], positional) == (10, 1, "", [])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--nope", "ERROR: unknown command line flag 'nope'"),
        ("--flagfile=x", "ERROR: unknown command line flag 'flagfile'"),
        ("--iter=abc", "ERROR: illegal value 'abc' specified for int32 flag 'iter'"),
        ("--iter=", "ERROR: illegal value '' specified for int32 flag 'iter'"),
        ("--cpu=maybe", "ERROR: illegal value 'maybe' specified for bool flag 'cpu'"),
    ],
)
def test_invalid_flags_are_rejected_like_in_gflags(argument, message):
    with pytest.raises(FlagError) as caught:
        parse([argument])
    assert str(caught.value) == message
