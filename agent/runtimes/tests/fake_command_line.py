"""Parse the command line like load_and_run up to 1.6, and like later versions."""

import re
import sys

from fake_flags import LEGACY_HELP, gflags_help

TAKES_VALUE = re.compile(
    r"--(multithread(-default)?|multi-thread-core-ids|profile(-host)?|input|model-info|io-dump|"
    r"bin-io-dump|bin-out-dump|iter|warmup-iter|range|check-var-value|get-static-mem-info|"
    r"fast-run-algo-policy|fast-run-shared-batch-size|c-opr-lib|thread|workspace-limit|"
    r"layout-transform(-dump)?)"
)
LEGACY_SILENT = (
    "nchw4",
    "nchw32",
    "nhwcd4",
    "fuse-conv-bias-nonlinearity",
    "fuse-conv-bias-with-z",
)


class Abort(Exception):
    """An uncaught C++ exception."""

    def __init__(self, what, kind="mgb::AssertionError", extra=""):
        super().__init__(what)
        self.what, self.kind, self.extra = what, kind, extra


def parse_legacy(argv):
    """Return (model, flags by name) as up to 1.6: the first argument is the model."""
    known = set(re.findall(r"--[a-z][a-z0-9-]+", LEGACY_HELP)) | {
        f"--enable-{name}" for name in LEGACY_SILENT
    }
    flags, rest = {}, argv[2:]
    while rest:
        name = rest.pop(0)
        if name not in known - {"--layout-transform-verify", "--data"}:
            sys.stderr.write(f"invalid arg: {name}\n")
            return 255
        value = "true"
        if TAKES_VALUE.fullmatch(name) and rest:
            value = rest.pop(0)
        if name == "--multi-thread-core-ids" and not {"multithread", "multithread_default"} & set(
            flags
        ):
            raise Abort("the core id should set behind the --multithread param")
        flags[name[2:].replace("-", "_")] = value
    return argv[1], flags


def parse_gflags(arguments, known):
    """Return (model, flags by name) as gflags does, or the exit code."""
    values, models, rest = {}, [], list(arguments)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-"):
            models.append(argument)
            continue
        name, equals, text = argument.lstrip("-").replace("-", "_", 99).partition("=")
        text = argument.partition("=")[2]
        off = name not in known and name.startswith("no") and name[2:] in known
        flag = known.get(name[2:] if off else name)
        if flag is None:
            return complain(f"unknown command line flag '{argument.lstrip('-').partition('=')[0]}'")
        if not equals:
            if flag.type == "bool":
                text = "false" if off else "true"
            elif not rest:
                return complain(f"flag '{argument}' is missing its argument")
            else:
                text = rest.pop(0)
        if not fits(flag.type, text):
            return complain(f"illegal value '{text}' specified for {flag.type} flag '{flag.name}'")
        values[flag.name] = text
    if values.get("help") == "true":
        print(gflags_help(known))
        return 1
    if values.get("version") == "true":
        print("load_and_run version 1.0")  # of every version: nobody ever changed it
        return 0
    off_words = ("false", "0", "no", "f", "n")
    flags = {k: v for k, v in values.items() if known[k].type != "bool" or v not in off_words}
    return (models[0] if models else None), flags


def complain(text):
    sys.stderr.write(f"ERROR: {text}\n")
    return 1


def fits(kind, text):
    if kind == "bool":
        return text.lower() in ("1", "t", "true", "y", "yes", "0", "f", "false", "n", "no")
    if kind == "double":
        return bool(re.fullmatch(r"[+-]?[0-9.]+(e[+-]?\d+)?", text, re.IGNORECASE))
    pattern = r"\d+" if kind.startswith("u") else r"[+-]?\d+"
    return kind == "string" or bool(re.fullmatch(rf"{pattern}|0x[0-9a-fA-F]+", text))
