"""Command `ab`: compare two to four models on a device in pairs of processes."""

import argparse
import uuid

from webprofile.client.answers import PairedOperators, Pairs, Task
from webprofile.client.batchfile.paired import (
    CODES,
    PAIRED_HELP,
    add_paired_arguments,
    keys_from_arguments,
)
from webprofile.client.commands import Parsers, added, open_site
from webprofile.client.errors import UsageError
from webprofile.client.gate import result_of_pairs
from webprofile.client.site import Site
from webprofile.client.waiting import code_of, deadline_of, wait_until_ended
from webprofile.terminal.arguments import seconds
from webprofile.terminal.exit_codes import SUCCEEDED
from webprofile.terminal.output import duration, plain, print_json, print_table

_NOTES = f"""With the number of a task instead of models, ab waits for an earlier comparison,
for example after Ctrl-C.

{PAIRED_HELP}"""


def add_parsers(commands: Parsers) -> None:
    ab = added(
        commands,
        "ab",
        "compare two to four models on a device in pairs of processes that take turns",
        "old.mge new.mge -w x86-1 -d data=cat.npy",
        "net.mge net.mge -w x86-1 --arm-option B:fast_run --margin 2%",
        "net.mge net.mge -w x86-1 -V 1.13.0 -V 1.13.1 --budget 300s --json",
        "12    # the verdict of task 12, which was submitted earlier",
        notes=_NOTES,
    )
    ab.add_argument(
        "models", nargs="+", metavar="MODEL", help="model files, or the number of a task"
    )
    add_paired_arguments(ab)
    add = ab.add_argument
    add("--wait", action=argparse.BooleanOptionalAction, default=True, help="wait for the verdict")
    add("--timeout", type=seconds, metavar="S", help="maximum waiting time")
    add("--key", metavar="NAME", help="name of this run; a repetition with the same name within a "
        "day continues an interrupted run and creates nothing twice")  # fmt: skip
    add("--json", action="store_true", help="print all details as JSON")
    ab.set_defaults(command=compare_arms)


def compare_arms(args: argparse.Namespace) -> int:
    deadline = deadline_of(args.timeout)
    with open_site() as site:
        number = _number(site, args)
        if not args.wait:
            if args.json:
                print_json({"task": number})
            else:
                print(number)
            return SUCCEEDED
        task, pairs = wait_for_pairs(site, number, deadline)
    result = None if pairs is None else result_of_pairs(pairs)
    if args.json:
        print_json({"task": task, "pairs": pairs, "result": result})
    elif pairs is not None:
        print(f"#{number} {site.api.site}/tasks/{number}/\n")
        print_pairs(pairs)
    return code_of([task]) if result is None else CODES[result]


def _number(site: Site, args: argparse.Namespace) -> int:
    """Return the number of the task: that of the arguments, or of a new one."""
    if len(args.models) > 1:
        key = args.key or uuid.uuid4().hex
        return site.ab(args.models, key=key, **keys_from_arguments(args))
    (text,) = args.models
    if not (text.isascii() and text.isdigit()):
        raise UsageError("Give two to four models, or the number of a paired comparison.")
    if site.task(int(text))["pairing"] is None:
        raise UsageError(f"Task {text} is not a paired comparison.")
    return int(text)


def wait_for_pairs(site: Site, number: int, deadline: float) -> tuple[Task, Pairs | None]:
    """Wait for a paired comparison; return its task, and its result if it succeeded."""
    task = wait_until_ended(site.api, [number], deadline, command="ab")[number]
    return task, site.pairs(number) if task["status"] == "succeeded" else None


def print_pairs(pairs: Pairs) -> None:
    """Print the arms, outputs that differ, the verdicts, and how many pairs count."""
    rows = [
        (
            arm["letter"],
            arm["model"],
            arm["version"],
            " ".join(f"{name}={value}" for name, value in arm["options"].items()),
            duration(None if arm["usual_ms"] is None else arm["usual_ms"] / 1000),
        )
        for arm in pairs["arms"]
    ]
    print_table(rows, ("", "model", "MegEngine", "options", "iteration"), right=1)
    print()
    for arm in pairs["arms"]:
        outputs = [output for output in arm["outputs"] if output["differs"]]
        if outputs:
            print(f"DIFFERENT OUTPUTS: those of {arm['letter']} differ from those of A.")
        for output in outputs:
            print(plain(f"  {output['name']}: {output['text']}"))
    for verdict in pairs["verdicts"]:
        print(plain(f"{verdict['verdict'].replace('_', ' ').upper()}: {verdict['sentence']}"))
    for operators in pairs["operators"]:
        _print_operators(operators)
    # an older site does not tell
    to_verdict = pairs["pairs"][: pairs.get("pairs_to_verdict")]
    used = sum(not pair["disturbances"] for pair in to_verdict)
    measuring = duration(pairs["measuring_s"])
    print(f"{used} of {len(to_verdict)} pairs count; measuring took {measuring}")
    if later := len(pairs["pairs"]) - len(to_verdict):
        print(f"pairs after the verdict, to find the operators that differ: {later}")


def _print_operators(arm: PairedOperators) -> None:
    """Print the operators that make an arm slower or faster."""
    if not arm["named"]:
        if any(operator["differs"] for operator in arm["operators"]):
            print(f"{arm['letter']}: the operators that differ do not explain the verdict")
            return
        print(f"{arm['letter']}: no operator differs in {arm['pairs']} pairs with profiled turns")
        return
    explained = "" if arm["share"] is None else f", explaining {100 * arm['share']:.0f} %"
    print(f"operators of {arm['letter']} that differ{explained}:")
    for operator in arm["named"]:
        effect = operator["effect"]
        change = operator["status"] if effect is None else f"{100 * effect:+.1f} %"
        line = f"  {operator['delta_us']:+.1f} us ({change})  {operator['name']}"
        print(plain(f"{line}  {operator['type']}"))
