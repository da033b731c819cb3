"""The arguments of `submit`, the same for `webprofile` and for `manage.py`."""

import argparse
from pathlib import Path
from typing import Any

from webprofile.client.batchfile.matrix import Block, blocks_of, read_batch
from webprofile.client.batchfile.mistakes import BatchError
from webprofile.client.batchfile.values import FORMATS, KEYS, PLAN_KEYS

#: below the examples of `--help`
FORMAT_HELP = (
    """a file of tasks (TOML, or YAML with the same keys; [[tasks]] makes further blocks):
  models = ["resnet18.mge", "mobile*.mge"]
  workers = ["x86-1", "pi-4"]
  repeats = 3
  plan = "standard"
  [data]
  data = "cat.npy"
  [option_sets.plain]
  [option_sets.fast]
  fast_run = true

its keys; arguments replace what the file says:
"""
    + "\n".join(f"  {key:<14} {text}" for key, text in KEYS.items())
    + """

a plan of your own has at least one run; --plan clean=true,clean_min_s=5,profiled=0, or in a file
  [plan]
  clean = true
  clean_min_s = 5
  profiled = 0

its keys:
"""
    + "\n".join(f"  {key:<20} {text}" for key, text in PLAN_KEYS.items())
)


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments replace what the file says under the same key."""
    add = parser.add_argument
    add("file", nargs="?", type=Path, help="a file of tasks: .toml, .yaml or .yml")
    add("-m", "--model", action="append", metavar="FILE", help="a model; may be repeated")
    add("-s", "--script", action="append", metavar="FILE", help="a program instead of a model")
    add("--entry", metavar="PATH", help="the program within a script that is a .zip")
    add("--arguments", metavar="TEXT", help="of the script, as typed into a shell")
    add("--format", action="append", choices=list(FORMATS), help="of a script; may be repeated")
    add("--sample-rate", type=int, metavar="N", help="of a script: memory every N operators")
    add("-w", "--worker", action="append", metavar="NAME", help="a device; may be repeated")
    add("-V", "--megengine", action="append", metavar="VERSION", help="or all; may be repeated")
    add("-o", "--option", action="append", metavar="NAME=VALUE", help="of load_and_run")
    add(
        "-d",
        "--data",
        action="append",
        metavar="VARIABLE=FILE",
        help="or a .json file; any beside a script",
    )
    add("-i", "--input", action="append", metavar="VARIABLE=NUMBERS", help="written out")
    add(
        "-p",
        "--plan",
        metavar="PLAN",
        help="quick, standard (default), thorough, or one of your own: clean=true,profiled=0",
    )
    add("--time-limit", type=int, metavar="S", help="seconds, of all passes or runs of a task")
    add("-r", "--repeats", type=int, metavar="N", help="how often each task is made")
    add("--seed", type=int, metavar="N", help="of random inputs")
    add("--title", metavar="TEXT", help="of the tasks; {model}, {worker} ... are filled in")
    add("--priority", type=int, metavar="N", help="more goes first among your own")


def blocks_asked(given: argparse.Namespace) -> list[Block]:
    """The matrices that file and arguments ask for. Raises BatchError with all mistakes."""
    replaced = _document(given)
    if given.file is not None:
        return read_batch(given.file, replaced)
    if not replaced:
        raise BatchError(
            [("arguments", "name a file of tasks, or at least --model or --script, and --worker")]
        )
    return blocks_of({}, folder=Path(), replaced=replaced)


def _document(given: argparse.Namespace) -> dict[str, Any]:
    found = {
        "models": given.model,
        "scripts": given.script,
        "entry": given.entry,
        "arguments": given.arguments,
        "formats": given.format,
        "sample_rate": given.sample_rate,
        "time_limit_s": given.time_limit,
        "workers": given.worker,
        "versions": given.megengine,
        "options": _pairs("--option", given.option, _value),
        "data": _data(given.data),
        "inputs": _pairs("--input", given.input, str),
        "plan": _plan(given.plan),
        "repeats": given.repeats,
        "seed": given.seed,
        "title": given.title,
        "priority": given.priority,
    }
    return {key: value for key, value in found.items() if value is not None}


def _plan(given: str | None) -> Any:
    """A preset's name, or the numbers of a plan of one's own: clean=true,profiled=0."""
    if given and "=" in given:
        return _pairs("--plan", given.split(","), _value)
    return given


def _data(given: list[str] | None) -> Any:
    if given and all("=" not in each for each in given):
        return given
    return _pairs("--data", given, str)


def _pairs(name: str, given: list[str] | None, read: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    found: dict[str, Any] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise BatchError([(name, f"“{each}” is not NAME=VALUE")])
        if key in found:
            raise BatchError([(name, f"“{key}” is given twice")])
        found[key] = read(value)
    return found


def _value(text: str) -> bool | int | float | str:
    """true and false are switches; what looks like a number is one."""
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
