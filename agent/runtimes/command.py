"""How a runtime is started."""

from pathlib import Path
from typing import Literal

#: load_and_run's command line on the wheel; a folder that a Python interpreter runs by its path
LOAD_AND_RUN = Path(__file__).resolve().parent.parent / "load_and_run"


def command_for(kind: Literal["wheel", "binary"], path: str) -> list[str]:
    """The first arguments of a load_and_run command; model and flags follow.

    `path` is the interpreter with MegEngine (wheel) or load_and_run itself (binary).
    """
    return [path, str(LOAD_AND_RUN)] if kind == "wheel" else [path]
