"""Command line arguments of `submit`, shared by `webprofile` and `manage.py`."""

import argparse
from pathlib import Path
from typing import Any

from webprofile.client.batchfile import BatchError
from webprofile.client.batchfile.matrix import Block, blocks_of, read_batch
from webprofile.client.batchfile.values import FORMATS, KEYS, PLAN_KEYS

#: text below the examples of `--help`
FORMAT_HELP = (
    """a file of tasks (TOML, or YAML with the same keys; each [[tasks]] starts a block):
  models = ["resnet18.mge", "mobile*.mge"]
  workers = ["x86-1", "pi-4"]
  repeats = 3
  plan = "standard"
  [data]
  data = "cat.npy"
  [option_sets.plain]
  [option_sets.fast]
  fast_run = true

keys of the file, which arguments override:
"""
    + "\n".join(f"  {key:<14} {text}" for key, text in KEYS.items())
    + """

a custom plan has at least one pass; write --plan clean=true,clean_min_s=5,profiled=0, or in a file
  [plan]
  clean = true
  clean_min_s = 5
  profiled = 0

keys of a custom plan:
"""
    + "\n".join(f"  {key:<20} {text}" for key, text in PLAN_KEYS.items())
)


def add_batch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `submit`, which override keys of the file."""
    add = parser.add_argument
    add("file", nargs="?", type=Path, help="a file of tasks: .toml, .yaml or .yml")
    add("-m", "--model", action="append", metavar="FILE", help="model (.mge); may be repeated")
    add(
        "-s",
        "--script",
        action="append",
        metavar="FILE",
        help="Python program to run instead of a model; may be repeated",
    )
    add("--entry", metavar="PATH", help="path of the program in a script that is a .zip")
    add("--arguments", metavar="TEXT", help="command-line arguments of the script")
    add(
        "--format",
        action="append",
        choices=list(FORMATS),
        help="what to record of a script; may be repeated",
    )
    add(
        "--sample-rate",
        type=int,
        metavar="N",
        help="record the memory of a script every N operators",
    )
    add("-w", "--worker", action="append", metavar="NAME", help="device; may be repeated")
    add(
        "-V",
        "--megengine",
        action="append",
        metavar="VERSION",
        help="version of MegEngine, or all; may be repeated",
    )
    add("-o", "--option", action="append", metavar="NAME=VALUE", help="option of load_and_run")
    add("--preset", metavar="NAME", help="preset of options; --option overrides its values")
    add(
        "-d",
        "--data",
        action="append",
        metavar="VARIABLE=FILE",
        help="input file of a variable; a .json file contains the names of its variables; for a "
        "script, any file",
    )
    add(
        "-i",
        "--input",
        action="append",
        metavar="VARIABLE=NUMBERS",
        help="values of an input, such as x=1,2,3",
    )
    add(
        "-p",
        "--plan",
        metavar="PLAN",
        help="quick, standard (default), thorough, or keys of a plan: clean=true,profiled=0",
    )
    add("--time-limit", type=int, metavar="S", help="time limit of each task in seconds")
    add(
        "-r",
        "--repeats",
        type=int,
        metavar="N",
        help="number of tasks for each combination; default: 1",
    )
    add("--seed", type=int, metavar="N", help="seed of random inputs")
    add("--title", metavar="TEXT", help="title of the tasks; {model}, {worker} ... are replaced")
    add(
        "--priority",
        type=int,
        metavar="N",
        help="tasks with a higher priority run first among your own",
    )


def blocks_from_arguments(args: argparse.Namespace) -> list[Block]:
    """Return the task matrices of file and arguments. Raises BatchError with all mistakes."""
    replaced = _document(args)
    if args.file is not None:
        return read_batch(args.file, replaced)
    if not replaced:
        raise BatchError(
            [("arguments", "give a file of tasks, or --worker with --model or --script")]
        )
    return blocks_of({}, folder=Path(), replaced=replaced)


def _document(args: argparse.Namespace) -> dict[str, Any]:
    values = {
        "models": args.model,
        "scripts": args.script,
        "entry": args.entry,
        "arguments": args.arguments,
        "formats": args.format,
        "sample_rate": args.sample_rate,
        "time_limit_s": args.time_limit,
        "workers": args.worker,
        "versions": args.megengine,
        "options": pairs_of("--option", args.option, value_of),
        "option_preset": args.preset,
        "data": _data(args.data),
        "inputs": pairs_of("--input", args.input, str),
        "plan": _plan(args.plan),
        "repeats": args.repeats,
        "seed": args.seed,
        "title": args.title,
        "priority": args.priority,
    }
    return {key: value for key, value in values.items() if value is not None}


def _plan(text: str | None) -> Any:
    """Return the name of a preset, or the values of a custom plan (clean=true,profiled=0)."""
    if text and "=" in text:
        return pairs_of("--plan", text.split(","), value_of)
    return text


def _data(texts: list[str] | None) -> Any:
    if texts and all("=" not in text for text in texts):
        return texts
    return pairs_of("--data", texts, str)


def pairs_of(name: str, texts: list[str] | None, read: Any) -> dict[str, Any] | None:
    """Parse texts of the form NAME=VALUE; None stays None. Raises BatchError."""
    if texts is None:
        return None
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise BatchError([(name, f"“{text}” is not NAME=VALUE")])
        if key in values:
            raise BatchError([(name, f"“{key}” is given twice")])
        values[key] = read(value)
    return values


def value_of(text: str) -> bool | int | float | str:
    """Parse true, false or a number; return other text unchanged."""
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
