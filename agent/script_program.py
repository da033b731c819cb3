"""A script's files on the device: how they lie for a run, and which of them is run."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.closed_sandbox import PROGRAM, make_folders
from agent.protocol import Start
from agent.protocol.inputs import InputError
from agent.spool import remove_tree
from agent.unpack import unpack

#: of a zip whose task names none, in this order
_USUAL = ("__main__.py", "main.py")
#: so many are named where one must be chosen
_MOST_NAMED = 20


def check_script(order: Start) -> None:
    """Refuse what needs no look at the files. Raises ValueError."""
    name, script = order.model.name, order.script
    if script is None or not name.endswith((".py", ".zip")):
        raise ValueError(f"{name}: a script is a .py file or a zip file with one")
    if name.endswith(".py") and script.entry not in (None, name):
        raise ValueError(f"{name} is a file alone: there is no {script.entry} in it")
    names = [name, *(file.name for file in order.data)]
    if len(set(names)) != len(names):
        raise ValueError("two files have the same name")


def lay_out(order: Start, given: Path, work: Path, *, last: bool) -> str:
    """Make `work` anew from the files in `given`; return the program's path below PROGRAM.

    What an earlier run left goes: no run sees what another did. The last one may use up `given`.
    Raises InputError, OSError.
    """
    remove_tree(work)
    work.mkdir(mode=0o700)
    make_folders(work)
    folder, name = work / PROGRAM, order.model.name
    put = shutil.move if last else shutil.copyfile
    if name.endswith(".zip"):
        files = unpack(given / name, folder)
        wanted = order.script.entry if order.script else None
        program = choose_program(name, files, wanted)
    else:
        put(given / name, folder / name)
        program = name
    for file in order.data:
        if (folder / file.name).exists():
            text = f"{file.name} is a file of the task and lies in {name} too: rename one of both"
            raise InputError("name", text)
        put(given / file.name, folder / file.name)
    return program


def choose_program(archive: str, files: Sequence[str], wanted: str | None) -> str:
    """Which of a zip's files is run. Raises InputError that names those which could be."""
    programs = [path for path in files if path.endswith(".py")]
    if wanted is not None:
        if wanted in files:
            return wanted
        raise InputError("unreadable", f"{archive} holds no {wanted}: {_named(programs)}")
    for usual in _USUAL:
        if usual in programs:
            return usual
    if len(programs) == 1 and not programs[0].startswith("-"):
        return programs[0]
    text = f"{archive}: name the file that is to be run: {_named(programs)}"
    raise InputError("unreadable", text)


def _named(programs: Sequence[str]) -> str:
    if not programs:
        return "there is no Python file in it"
    more = f" and {len(programs) - _MOST_NAMED} more" if len(programs) > _MOST_NAMED else ""
    return f"its Python files are {', '.join(programs[:_MOST_NAMED])}{more}"
