"""Count the Python files of this repository that two parts of a task's way execute.

`python -m bench.executed_files [--list]` starts a whole embedded site in a folder of its own and
counts in all of its processes. The first part is from the POST of a task to the start of its
process on the device, the second, without the agent's files, from there to the rows of the result's
table. Heartbeats and the sweep are counted where they run meanwhile.
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
    """Return the paths of the files that each part executes."""
    seen = folder / "seen"
    seen.mkdir()
    os.environ |= {"EXECUTED_FILES": str(seen), "PYTHONPATH": str(ROOT / "bench" / "preload")}
    with running_site(folder / "site") as site, site.login() as visitor:
        worker, (model, data) = visitor.device()["id"], sample(folder / "sample")
        for _ in range(2):  # the first task warms caches up
            on(seen)
            task, _ = send(visitor, worker, model, data, iterations=100)
            events = visitor.events(task)
            next(event for event in events if event.get("state") == "running")
            first = off(seen)
            on(seen, settle_s=0)
            next(event for event in events if event.get("state") == "finished")
            database = sqlite3.connect(f"file:{site.home / 'db.sqlite3'}?mode=ro", uri=True)
            (profile,) = database.execute("SELECT max(id) FROM profiles_profile").fetchone()
            rows = visitor.get(f"/profiles/{profile}/operators/").text
            assert "<tr" in rows, rows
            second = off(seen)
    second = [path for path in second if not path.startswith("agent/")]
    return {"from the POST to the start": first, "from the start to the rows": second}


def on(seen: Path, settle_s: float = 0.5) -> None:
    (seen / "on").touch()
    time.sleep(settle_s)


def off(seen: Path) -> list[str]:
    """Stop recording; return the files' paths in the repository."""
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
