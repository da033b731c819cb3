"""Record which Python files of the repository each process executes while FOLDER/on exists.

EXECUTED_FILES names that folder. `bench/executed_files.py` sets it and reads the files PID.txt that
the processes write there.
"""

import os
import sys
import threading
import time
from pathlib import Path

_FOLDER = Path(os.environ["EXECUTED_FILES"])
_ROOT = str(Path(__file__).resolve().parents[2]) + os.sep
_executed: set[str] = set()


def _on_call(frame: object, event: str, _: object) -> None:
    if event == "call":
        _executed.add(frame.f_code.co_filename)  # type: ignore[attr-defined]


def _watch() -> None:
    was_on = False
    while True:
        is_on = (_FOLDER / "on").exists()
        if is_on and not was_on:
            _executed.clear()
        if is_on or was_on:
            names = [name for name in _executed.copy() if name.startswith(_ROOT)]
            (_FOLDER / f"{os.getpid()}.txt").write_text("\n".join(names), encoding="utf-8")
        was_on = is_on
        time.sleep(0.02)


def _start() -> None:
    threading.setprofile(_on_call)
    sys.setprofile(_on_call)
    threading.Thread(target=_watch, daemon=True).start()


os.register_at_fork(after_in_child=_start)
_start()
