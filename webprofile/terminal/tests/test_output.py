"""Tests of terminal output: units of numbers, and escaping of control characters in names."""

import io

import pytest

from webprofile.terminal.output import duration, plain, table
from webprofile.terminal.progress import Progress


def test_control_characters_are_escaped():
    assert plain("a\x1b[2Jb\u202e\u2028") == "a\ufffd[2Jb\ufffd\ufffd"
    assert plain("5\u00a0MB 模型\u3000一") == "5\u00a0MB 模型\u3000一"
    assert "\x1b" not in table([("\x1b]0;x\x07", 1)], ("a", "b"), right=1)
    stream = io.StringIO()
    with Progress(1, "Submitting", stream=stream) as progress:
        progress.line("refused \x1b[1mx: too long\nsecond line")
    assert stream.getvalue() == "refused \ufffd[1mx: too long\nsecond line\n"


def test_table_without_rows_has_headings():
    text = table([], ("task", "time"), right=1, widest=30)
    assert text.split() == ["task", "time", "------", "------"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0, "0 s"), (1.5, "1.5 s"), (0.0123456, "12.35 ms"), (2e-6, "2 µs"),
     (-3e-4, "-300 µs"), (5e-12, "0.005 ns")],
)  # fmt: skip
def test_durations_have_a_fitting_unit(seconds, text):
    assert duration(seconds) == text
