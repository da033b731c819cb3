"""Untrusted zip files: what is unpacked, and what is rejected."""

import io
import random
import stat
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.execution import unpack as unpacking
from agent.execution.script_runs import choose_program
from agent.execution.unpack import unpack
from agent.protocol.inputs import InputError
from agent.tests.script_device import zip_bytes


def unpack_bytes(folder, content: bytes) -> list[str]:
    archive, target = folder / "script.zip", folder / "target"
    archive.write_bytes(content)
    target.mkdir()
    return unpack(archive, target)


def make_zip(name="main.py", content=b"", mode=0, **changes) -> bytes:
    info = zipfile.ZipInfo(name)
    info.filename = info.orig_filename = name
    info.external_attr = mode << 16
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, content)
    packed = bytearray(file.getvalue())
    for offset, value in changes.get("patch", ()):
        at = offset + packed.rindex(b"PK\x01\x02") if offset >= 0 else -offset
        packed[at : at + len(value)] = value
    return bytes(packed)


def test_files_folders_and_permissions_are_unpacked(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("模型/", "")
        archive.writestr("模型/main.py", "print()")
        archive.writestr("__MACOSX/._main.py", "litter")
        runs = zipfile.ZipInfo("run.sh")
        runs.external_attr = (stat.S_IFREG | 0o4777) << 16
        archive.writestr(runs, "true")
    assert unpack_bytes(tmp_path, file.getvalue()) == ["run.sh", "模型/main.py"]
    assert (tmp_path / "target/模型/main.py").read_text() == "print()"
    assert stat.S_IMODE((tmp_path / "target/run.sh").stat().st_mode) == 0o700
    assert not (tmp_path / "target/__MACOSX").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../main.py", "a/../../main.py", "/etc/main.py", "a//main.py", "./main.py", "C:/main.py",
        "a\\..\\main.py", "a\nb.py", "a\x1b[2J.py", "a\u202eyp.py", "x" * 256, "a/" * 40 + "b",
        "a/" + "é" * 200, "..", ".", "/",
    ],
    ids=ascii,
)  # fmt: skip
def test_an_unsafe_name_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"script\.zip") as refused:
        unpack_bytes(tmp_path, make_zip(name))
    assert refused.value.code == "name"
    assert refused.value.text.isprintable()
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize(
    "kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK]
)
def test_links_and_devices_are_refused(tmp_path, kind):
    with pytest.raises(InputError, match="a link or a device"):
        unpack_bytes(tmp_path, make_zip(content=b"/etc/passwd", mode=kind | 0o777))


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ((8, b"\x01"), "encrypted"),
        ((10, b"\x0e"), "deflate"),
        ((24, b"\xff\xff\xff\x7f"), "the limit is 1.0 GiB"),
        ((24, b"\x09"), "cannot be unpacked|differs by"),
    ],
    ids=["encrypted", "lzma", "size", "longer"],
)
def test_an_unreadable_zip_is_refused_with_the_reason(tmp_path, patch, words):
    with pytest.raises(InputError, match=words):
        unpack_bytes(tmp_path, make_zip(content=b"print()", patch=[patch]))


@pytest.mark.parametrize(
    "names", [("a.py", "a.py"), ("a", "a/b.py"), ("a/b.py", "a"), ("a/", "a")], ids=str
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_occurs_twice_is_refused(tmp_path, names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    causes = r"contains .* twice|has the same name as a file"
    with pytest.raises(InputError, match=causes) as refused:
        unpack_bytes(tmp_path, file.getvalue())
    assert refused.value.code == "name"


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with pytest.raises(InputError, match="times as large as the archive") as refused:
        unpack_bytes(tmp_path, zip_bytes({"main.py": "", "zeros": bytes(80 << 20)}))
    assert refused.value.code == "too_large"
    assert list((tmp_path / "target").iterdir()) == []


def test_small_files_may_have_any_compression_ratio(tmp_path):
    assert unpack_bytes(tmp_path, zip_bytes({"zeros.npy": bytes(8 << 20)})) == ["zeros.npy"]


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_FILES", 20)
    with pytest.raises(InputError, match="has 21 files; the limit is 20"):
        unpack_bytes(tmp_path, zip_bytes({f"{n}.py": "" for n in range(21)}))


def test_a_list_of_files_that_is_too_long_is_refused(tmp_path, monkeypatch):
    content = zip_bytes({f"{n}.py": "" for n in range(2000)})
    monkeypatch.setattr(unpacking, "_MOST_READ_BYTES", 80_000)
    with pytest.raises(InputError, match=r"file list \(zip directory\) of script\.zip is too long"):
        unpack_bytes(tmp_path, content)


VALID_ZIP = zip_bytes({"main.py": "print('hello')" * 9, "data/a.npy": bytes(300), "b.py": "x"})


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(0, len(VALID_ZIP)))
def test_a_damaged_zip_never_writes_outside_its_folder(tmp_path_factory, seed, hits, cut):
    folder = tmp_path_factory.mktemp("zip")
    chance, content = random.Random(seed), bytearray(VALID_ZIP)
    for _ in range(hits):
        content[chance.randrange(len(content))] = chance.randrange(256)
    if cut % 3 == 0:
        del content[cut:]
    try:
        files = unpack_bytes(folder, bytes(content))
    except InputError as error:
        assert "script.zip" in error.text
    else:
        assert all((folder / "target" / name).is_file() for name in files)
    assert {path.name for path in folder.iterdir()} <= {"script.zip", "target"}
    assert not any(path.is_symlink() for path in folder.rglob("*"))


names = st.text(st.sampled_from("ab./\\:~\0 \n-é中"), min_size=1, max_size=12)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_no_list_of_names_writes_outside_the_folder(tmp_path_factory, given_names):
    folder = tmp_path_factory.mktemp("names")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in given_names:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            archive.writestr(info, "text")
    try:
        unpack_bytes(folder, file.getvalue())
    except InputError:
        return
    finally:
        assert {path.name for path in folder.iterdir()} <= {"script.zip", "target"}


@pytest.mark.parametrize(
    ("files", "entry", "program"),
    [
        (["a.py", "main.py"], None, "main.py"),
        (["__main__.py", "main.py"], None, "__main__.py"),
        (["deep/only.py", "notes.txt"], None, "deep/only.py"),
        (["a.py", "b.py"], "b.py", "b.py"),
    ],
)
def test_the_program_of_a_zip_is_chosen(files, entry, program):
    assert choose_program("script.zip", files, entry) == program


def test_a_long_list_of_programs_is_cut():
    with pytest.raises(InputError, match=r"b19\.py, …"):
        choose_program("script.zip", [f"b{n}.py" for n in range(50)], None)
