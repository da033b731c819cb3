"""Diagnose why a run failed: map its exit code and log to a reason that a user can act on.

The patterns match what load_and_run 1.13 and MegEngine print (`terminate called after throwing an
instance of 'mgb::...'`, then `what():`), and the exceptions that our front end for the wheel
raises (`lar::...`).

Devices and the names in a model decide what a log holds. So all patterns are RE2's, which take time
in proportion to the text, and lines are cut before they are searched.
"""

import signal
from typing import Any

import re2

from agent.protocol.messages import AttemptFinished, EndReason
from tasks.lifecycle.outcomes import ENDS
from tasks.lifecycle.reasons import Reason

SIGNAL_BASE = 128
EXIT_SIGKILL = SIGNAL_BASE + signal.SIGKILL
#: the process exceeded the limit on the size of a file
EXIT_SIGXFSZ = SIGNAL_BASE + signal.SIGXFSZ
#: names of signals by exit code
CRASH_SIGNALS = {
    SIGNAL_BASE + number: number.name
    for number in (
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGXFSZ,
    )
}

#: characters of a line that are searched; MegEngine's longest messages have some 1,000
LONGEST_LINE = 4000
#: patterns of RE2, which has no types, and the reasons that they show
Patterns = tuple[tuple[Any, Reason], ...]


def _compiled(*pairs: tuple[str, Reason]) -> Patterns:
    return tuple((re2.compile(pattern), reason) for pattern, reason in pairs)


#: the agent's codes for invalid inputs (`agent.protocol.inputs`)
_BY_CAUSE = {
    "unknown_input": Reason.INPUT_UNKNOWN,
    "wrong_dtype": Reason.INPUT_DTYPE,
    "dtype": Reason.INPUT_DTYPE,
    "axes": Reason.INPUT_SHAPE,
    "shape": Reason.INPUT_SHAPE,
    "unreadable": Reason.INPUT_UNREADABLE,
    "format": Reason.INPUT_UNREADABLE,
    "header": Reason.INPUT_UNREADABLE,
    "size": Reason.INPUT_UNREADABLE,
    "json": Reason.INPUT_UNREADABLE,
    "literal": Reason.INPUT_WRONG,
    "name": Reason.INPUT_WRONG,
    "too_large": Reason.INPUT_WRONG,
}
#: messages of the wheel's front end about invalid inputs
_BY_INPUT = _compiled(
    (r"is not an input of the model|the model has no inputs?\b", Reason.INPUT_UNKNOWN),
    (r"is not given|nothing feeds|has no data", Reason.INPUT_MISSING),
    (r"but the model wants|no type for|structured type|unknown type", Reason.INPUT_DTYPE),
    (r"inputs are (plain )?numbers|cannot read from a file|Python objects", Reason.INPUT_DTYPE),
    (r"\baxes\b|holds no numbers|is no shape|shape is not known", Reason.INPUT_SHAPE),
    (r"cut short|bytes after its|not an npy file|npy format version", Reason.INPUT_UNREADABLE),
    (r"header|JSON|failed to open|is no file|is none of|picture", Reason.INPUT_UNREADABLE),
)
#: first match wins
_BY_LOG = _compiled(
    (r"lar::NoMegEngine", Reason.RUNTIME_MISSING),
    (r"lar::ProfileError", Reason.NO_PROFILE),
    (r"NumRangeCheckerError|float value out of range", Reason.VALUE_OUT_OF_RANGE),
    (r"request gpu ?\d+ out of valid range", Reason.GPU_MISSING),
    (
        r"out of memory while requesting|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        Reason.OUT_OF_DEVICE_MEMORY,
    ),
    (
        r"failed to (malloc|alloc)|bad_alloc|MemoryError|Cannot allocate memory|out of memory"
        r"|Unable to allocate",
        Reason.OUT_OF_MEMORY,
    ),
    (r"failed to open a file|valid npy format", Reason.INPUT_UNREADABLE),
    (r"lar::ModelError", Reason.MODEL_INVALID),
    (r"access invalid Maybe value", Reason.MODEL_INVALID),
    (r"model verification failed", Reason.MODEL_INVALID),
    (r"m_offset (\+ size )?<= m_size|`nr == size'|`ptr && size'", Reason.MODEL_INVALID),
    (r"invalid model format|m_format\.valid\(\)|wrong magic", Reason.MODEL_INVALID),
    (r"failed to open \S+\.mg[eb]\b", Reason.MODEL_INVALID),
    (r"can't find te\w+ named", Reason.INPUT_UNKNOWN),
    (r"attempt to access dtype|unsupported numpy dtype", Reason.INPUT_DTYPE),
    (r"src\.dtype\.enumv\(\) == filter\.dtype", Reason.INPUT_DTYPE),
    (r"ERROR: (unknown command line flag|illegal value)", Reason.OPTION_UNKNOWN),
    # the wheel's front end: `ERROR: --c_opr_lib: ...`
    (r"(?m)^ERROR: --\w", Reason.OPTION_UNSUPPORTED),
    (
        r"invalid options of both|should not bet? set at the same time|No compiler support"
        r"|to_json unsupported on|unexpected destruction of dnn opr|Xbyak::Error"
        r"|in print_host_val|`value\.layout\(\)\.is_contiguous\(\)'"
        r"|expect input, scale and bias to be 4 dim|invalid conv format",
        Reason.OPTION_UNSUPPORTED,
    ),
    (
        r"(?i:unsupported (src |output |input |pred )?dtype|unsupported opr)|No kernel available"
        r"|can not find loader for|no kernel image is available|opr loader with id"
        r"|not supported for operator",
        Reason.OPERATOR_UNSUPPORTED,
    ),
    # in a backtrace: the model loader failed
    (r"mgb13serialization", Reason.MODEL_INVALID),
    # shape inference precedes execution: its failure means that shapes do not match
    (
        r"get_output_var_shape|deduce_layout|static_infer|infer_conv_shape|bad input shape for"
        r"|shape mismatch",
        Reason.INPUT_SHAPE,
    ),
)
#: the exception that ended a script, by the last line of its traceback
_BY_EXCEPTION = _compiled(
    (
        r"out of memory while requesting|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        Reason.OUT_OF_DEVICE_MEMORY,
    ),
    (r"^MemoryError\b|bad_alloc|Cannot allocate memory|Unable to allocate", Reason.OUT_OF_MEMORY),
    (r"request gpu ?\d+ out of valid range|no CUDA-capable device", Reason.GPU_MISSING),
)
#: MegEngine prints this before it rethrows an exception of a pass over the graph: shapes that the
#: pass produced do not match, whatever the inputs are
_FAILED_PASS = re2.compile(r"error while applying optimization pass ([^:\n]{1,100}): ")
_OPTIMIZING = re2.compile(
    r"--(optimize_for_inference|layout_transform|fuse_grain|weight_preprocess|enable_\w)"
)
#: reasons by which such a failure would be diagnosed without `_FAILED_PASS`
_BY_FAILED_PASS = {None, Reason.INPUT_SHAPE, Reason.INPUT_DTYPE}
_SIGNAL = re2.compile(r"SIG[A-Z0-9]+")
_TRACEBACK_END = re2.compile(
    r"(?m)^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S[^\n]*)"
)
#: the loader's warning about a newer model, which it may load nevertheless: decides only if the
#: run failed
_NEWER = re2.compile(r"loading model from future runtime")
_NOT_GIVEN = re2.compile(r'input "[^"\n]{1,300}" [^\n]{0,200}is not given')
#: reasons that a missing input explains
_BY_GARBAGE = {Reason.INPUT_SHAPE, Reason.CRASHED, Reason.RUN_FAILED}
_WHAT = re2.compile(r"what\(\):\s*(.+)")
_EXTRA = re2.compile(r"(?m)^extra message: (.+)$")
_OTHER_SHAPE = re2.compile(r'input ".*" is \{.*\}, the model was made for \{.*\}')
_THROWN = re2.compile(r"(?m)terminate called after throwing|what\(\): |^extra message: ")
_ERROR = re2.compile(r"(?m)^ERROR: .+$")


def diagnose(report: AttemptFinished, log_tail: str) -> tuple[str, str]:
    """Return (reason code, one line of detail) for an attempt that did not succeed."""
    if known := ENDS[report.reason].reason:
        return known.code, report.detail
    if report.reason == EndReason.INPUT_WRONG:
        return _BY_CAUSE.get(report.cause, Reason.INPUT_WRONG).code, report.detail
    log_tail = _cut_lines(log_tail)
    cause = _cause(log_tail)
    reason = _reason(report, log_tail, cause)
    if reason in _BY_GARBAGE and (not_given := _NOT_GIVEN.search(log_tail)):
        return Reason.INPUT_MISSING.code, "; ".join(filter(None, [not_given[0], cause]))
    if reason is Reason.CRASHED:
        return reason.code, CRASH_SIGNALS[report.exit_code or 0]
    if reason is Reason.OPTIMIZATION_FAILED and (failed := _FAILED_PASS.search(log_tail)):
        return reason.code, f"optimization pass {failed[1]}: {cause}"
    return reason.code, cause or report.detail


def diagnose_script(report: AttemptFinished, log_tail: str) -> tuple[str, str]:
    """Return (reason code, one line of detail) for a script's attempt that did not succeed.

    Scripts print arbitrary text, so only the exception that ended the program is examined.
    """
    if known := ENDS[report.reason].reason:
        return known.code, report.detail
    # the script's zip, or a file that should lie beside it
    if report.reason == EndReason.INPUT_WRONG:
        return Reason.SCRIPT_UNREADABLE.code, report.detail
    if report.exit_code == EXIT_SIGKILL:
        return Reason.OUT_OF_MEMORY.code, report.detail
    if report.exit_code == EXIT_SIGXFSZ:
        return Reason.OUTPUT_TOO_LARGE.code, report.detail
    log_tail = _cut_lines(log_tail)
    # prefer the agent's detail: the traceback may lie before the part of the log that is kept
    detail = "" if _SIGNAL.fullmatch(report.detail) else report.detail
    exception = detail or _exception_line(log_tail)
    reason = _first(_BY_EXCEPTION, exception)
    if reason is None and report.exit_code in CRASH_SIGNALS:
        return Reason.CRASHED.code, exception or CRASH_SIGNALS[report.exit_code]
    return (reason or Reason.RUN_FAILED).code, exception or report.detail


def _cut_lines(log: str) -> str:
    return "\n".join(line[:LONGEST_LINE] for line in log.split("\n"))


def _exception_line(log_tail: str) -> str:
    """Return the exception's line of the last traceback, or the last line without a traceback."""
    if matches := _TRACEBACK_END.findall(log_tail):
        return str(matches[-1]).strip()
    lines = [line.strip() for line in log_tail.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _reason(report: AttemptFinished, log_tail: str, cause: str) -> Reason:
    if "lar::InputError" in log_tail:
        return _of_input(cause)
    # search the errors first: operator names and warnings elsewhere may match a pattern, too
    reason = _first(_BY_LOG, _errors_of(log_tail)) or _first(_BY_LOG, log_tail)
    if reason in _BY_FAILED_PASS and _failed_to_optimize(report, log_tail):
        return Reason.OPTIMIZATION_FAILED
    if reason in (None, Reason.MODEL_INVALID, Reason.OPERATOR_UNSUPPORTED) and _NEWER.search(
        log_tail
    ):
        return Reason.MODEL_TOO_NEW
    if reason:
        return reason
    if report.exit_code == EXIT_SIGKILL:
        return Reason.OUT_OF_MEMORY
    if report.exit_code == EXIT_SIGXFSZ:
        return Reason.OUTPUT_TOO_LARGE
    if report.exit_code in CRASH_SIGNALS and not cause:
        return Reason.CRASHED
    return Reason.RUN_FAILED


def _failed_to_optimize(report: AttemptFinished, log_tail: str) -> bool:
    """Whether a graph optimization failed although the inputs have the model's own shapes."""
    is_enabled = not report.command or _OPTIMIZING.search(report.command)
    has_failed = _FAILED_PASS.search(log_tail) and not _OTHER_SHAPE.search(log_tail)
    return bool(is_enabled and has_failed)


def _of_input(text: str) -> Reason:
    return _first(_BY_INPUT, text) or Reason.INPUT_WRONG


def _first(patterns: Patterns, text: str) -> Reason | None:
    return next((reason for pattern, reason in patterns if pattern.search(text)), None)


def _errors_of(log_tail: str) -> str:
    """Return the error lines of a log, and the uncaught exception with its backtrace."""
    parts = [match[0] for match in _ERROR.finditer(log_tail)]
    if thrown := _THROWN.search(log_tail):
        parts.append(log_tail[thrown.start() :])
    return "\n".join(parts)


def _cause(log_tail: str) -> str:
    """Return MegEngine's error message without C++ type and backtrace, or "".

    If inputs have other shapes than the model's, the lines about them precede it.
    """
    messages = _EXTRA.findall(log_tail) or _WHAT.findall(log_tail) or _ERROR.findall(log_tail)
    if not messages:
        return ""
    return "; ".join([*_OTHER_SHAPE.findall(log_tail), messages[-1].strip()])
