"""Tests of writing files atomically."""

import pytest

from webprofile.terminal.whole_files import whole_file


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
