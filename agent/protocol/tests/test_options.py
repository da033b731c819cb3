"""load_and_run's options: the allow-list, its limits, and the command line they become."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocol.options import OPTIONS, OptionError, build_arguments, check_options


def test_defaults_are_left_out():
    assert check_options({"iter": 10, "cpu": False, "warmup_iter": 2}) == {"warmup_iter": 2}


@pytest.mark.parametrize(
    ("given_options", "code"),
    [
        ({"io_dump": "/etc/passwd"}, "unknown"),
        ({"iter": "10"}, "not_int"),
        ({"iter": True}, "not_int"),
        ({"iter": 1.0}, "not_int"),
        ({"cpu": 1}, "not_bool"),
        ({"iter": 0}, "too_small"),
        ({"iter": 10_001}, "too_large"),
        ({"cpu": True, "cpu_default": True}, "excluded"),
    ],
)
def test_what_load_and_run_would_refuse_ignore_or_hang_on_is_refused(given_options, code):
    with pytest.raises(OptionError) as caught:
        check_options(given_options)
    assert caught.value.code == code


def test_an_option_that_is_off_excludes_nothing():
    assert check_options({"cpu": True, "cpu_default": False}) == {"cpu": True}


def test_the_command_line_glues_each_value_to_its_flag():
    options = {"iter": 20, "cpu": True, "profile_host": False}
    assert build_arguments("m.mge", {"a": "a.npy", "b": "b.npy"}, options, "p.json") == [
        "m.mge",
        "--input=a:a.npy;b:b.npy",
        "--iter=20",
        "--cpu",
        "--profile=p.json",
    ]


def test_a_host_profile_replaces_the_device_profile():
    assert build_arguments("m.mge", {}, {"profile_host": True}, "p.json") == [
        "m.mge",
        "--profile_host=p.json",
    ]


@given(st.dictionaries(st.text(max_size=20) | st.sampled_from(list(OPTIONS)), st.text()))
def test_text_never_reaches_the_command_line(options):
    if options:
        with pytest.raises(OptionError):
            build_arguments("m.mge", {}, options, "p.json")
