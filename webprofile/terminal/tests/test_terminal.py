"""Tests of arguments, of texts on the terminal and of files that are written as a whole."""

import argparse
import io

import pytest

from webprofile.terminal.arguments import count, seconds
from webprofile.terminal.output import duration, plain, table, whole_file
from webprofile.terminal.progress import Progress


@pytest.mark.parametrize("text", ["nan", "-1", "inf", "1e999", "", "soon"])
def test_invalid_time_limit_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


@pytest.mark.parametrize("text", ["-1", "1.5", "", "²", "many"])
def test_invalid_count_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)


def test_valid_time_limits_and_counts_are_accepted():
    assert (seconds("0.5"), seconds("0"), count("0"), count("12")) == (0.5, 0.0, 0, 12)


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


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "a.csv"
    with whole_file(path) as stream:
        stream.write(b"x")
        assert not path.exists()
    assert (path.read_bytes(), names(tmp_path)) == (b"x", ["a.csv"])
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_failed_write_keeps_the_previous_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as stream:
        stream.write(b"half")
        raise KeyboardInterrupt
    assert (path.read_bytes(), names(tmp_path)) == (b"before", ["a.csv"])


def test_symbolic_links_and_devices_are_kept(tmp_path):
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "link").symlink_to("real")
    with whole_file(tmp_path / "link") as stream:
        stream.write(b"after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"after"
    (tmp_path / "null").symlink_to("/dev/null")
    with whole_file(tmp_path / "null") as stream:
        stream.write(b"x")
    assert (tmp_path / "null").is_char_device()


def test_failed_write_leaves_no_temporary_file(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), whole_file(tmp_path / "full") as stream:
        stream.write(b"x")
    with pytest.raises(IsADirectoryError), whole_file(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "none" / "a.csv"):
        pass
    assert names(tmp_path) == ["full"]
