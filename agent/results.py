"""The files of an attempt: which names may go in, which files come out."""

import os
import stat

from agent.protocol import Start
from agent.spool import Folder
from agent.tail import LogTail

PROFILE_NAME = "profile.json"
LOG_NAME = "log.txt"


def check_files(order: Start) -> None:
    """Refuse names that clash or would be read as something else. Raises ValueError.

    load_and_run splits `--input` at `;` and each part at its first `:`, so a variable's name with
    one of them could name a file of the device.
    """
    names = [PROFILE_NAME, order.model.name, *(file.name for file in order.data)]
    if len(set(names)) != len(names):
        raise ValueError("two files have the same name")
    inputs = [file.input for file in order.data]
    if len(set(inputs)) != len(inputs):
        raise ValueError("two files feed the same input")
    for name in inputs:
        if not name.isprintable() or ";" in name or ":" in name:
            raise ValueError(f"input {name!r} cannot be given to load_and_run")


def keep_log(folder: Folder, tail: LogTail) -> None:
    """Write the log as it was sent; what the process printed beyond it goes."""
    (folder.result / LOG_NAME).write_text(tail.text(), encoding="utf-8", newline="")
    folder.output.unlink(missing_ok=True)


def keep_profile(folder: Folder) -> bool:
    """Move the profile out of the process's folder; False if there is none, or an empty one.

    A link is none: it would let the process have any file of the device uploaded.
    """
    made = folder.work / PROFILE_NAME
    try:
        state = os.lstat(made)
    except OSError:
        return False
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_size == 0:
        return False
    made.rename(folder.result / PROFILE_NAME)
    return True
