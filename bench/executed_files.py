"""Count the Python files of this repository that run while a task is executed.

`python -m bench.executed_files [--list]` starts a complete embedded site in a temporary folder and
records in all of its processes. It counts two phases: from the POST of a task to the start of its
process on the device, and from there to the rows of the result's table. The second count leaves out
files of the agent. Heartbeats and sweeps that run in these phases count too.
Resource-limited processes that read profiles start with a clean environment and are not recorded.
"""

import argparse
import os
import sqlite3
import tempfile
import time
from pathlib import Path

from bench.site import sample, send
from webprofile.tests.site import ROOT, running_site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="also name the files")
    with tempfile.TemporaryDirectory() as name:
        parts = executed(Path(name))
    is_long = parser.parse_args().list
    for part, files in parts.items():
        print(f"{part}: {len(files)} files", *(files if is_long else []), sep="\n    ")


def executed(folder: Path) -> dict[str, list[str]]:
    """Return the paths of the executed files by phase."""
    seen = folder / "seen"
    seen.mkdir()
    os.environ |= {"EXECUTED_FILES": str(seen), "PYTHONPATH": str(ROOT / "bench" / "preload")}
    with running_site(folder / "site") as site, site.login() as visitor:
        worker, (model, data) = visitor.device()["id"], sample(folder / "sample")
        for _ in range(2):  # the first task only fills caches
            start_recording(seen)
            task, _ = send(visitor, worker, model, data, iterations=100)
            events = visitor.events(task)
            next(event for event in events if event.get("state") == "running")
            first = stop_recording(seen)
            start_recording(seen, settle_s=0)
            next(event for event in events if event.get("state") == "finished")
            database = sqlite3.connect(f"file:{site.home / 'db.sqlite3'}?mode=ro", uri=True)
            (profile,) = database.execute("SELECT max(id) FROM profiles_profile").fetchone()
            rows = visitor.get(f"/profiles/{profile}/operators/").text
            assert "<tr" in rows, rows
            second = stop_recording(seen)
    second = [path for path in second if not path.startswith("agent/")]
    return {"from the POST to the start": first, "from the start to the rows": second}


def start_recording(seen: Path, settle_s: float = 0.5) -> None:
    """Start recording in all processes; they check for the file every 0.02 s."""
    (seen / "on").touch()
    time.sleep(settle_s)


def stop_recording(seen: Path) -> list[str]:
    """Stop recording and return the recorded paths, relative to the repository."""
    time.sleep(0.2)
    (seen / "on").unlink()
    time.sleep(0.3)
    texts = [path.read_text(encoding="utf-8") for path in seen.glob("*.txt")]
    for path in seen.glob("*.txt"):
        path.unlink()
    paths = {str(Path(line).relative_to(ROOT)) for text in texts for line in text.split()}
    return sorted(path for path in paths if not path.startswith((".", "bench/")))


if __name__ == "__main__":
    main()
