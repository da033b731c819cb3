"""The entry point of the agent's file: unpacked versions."""

import os
import time
import zipfile
from pathlib import Path

from agent.install import start


def test_a_version_that_is_unpacked_while_the_clock_is_behind_stays(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(start, "_root", lambda: str(tmp_path))
    later = time.time() + 1e6
    for number in (1, 2, 3):
        (tmp_path / f"{number}-cp311").mkdir()
        os.utime(tmp_path / f"{number}-cp311", (later + number, later + number))
    path = tmp_path.parent / "agent.pyz"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("site/agent/__init__.py", "")
    with zipfile.ZipFile(path) as bundle:
        folder = Path(start._unpacked(bundle, "4-cp311"))
    assert (folder / "agent").is_dir()
    assert {entry.name for entry in tmp_path.glob("*-cp311")} == {"3-cp311", "4-cp311"}
