"""Why a run failed: from exit code and log to a reason that a reader can act on.

The patterns are what load_and_run 1.13 and MegEngine print (`terminate called after throwing an
instance of 'mgb::...'`, then `what():`), and the two classes that our front end for the wheel adds
(`lar::...`).
"""

import re

from agent.protocol import AttemptFinished, EndReason
from tasks.reasons import Reason

SIGNAL_BASE = 128
KILLED = SIGNAL_BASE + 9
SIGNALS = {
    132: "SIGILL",
    134: "SIGABRT",
    136: "SIGFPE",
    137: "SIGKILL",
    139: "SIGSEGV",
    153: "SIGXFSZ",
}

_BY_REASON = {
    EndReason.TIMED_OUT: Reason.TIMED_OUT,
    EndReason.REFUSED: Reason.REFUSED_BY_AGENT,
    EndReason.NO_RUNTIME: Reason.RUNTIME_MISSING,
    EndReason.NO_PROFILE: Reason.NO_PROFILE,
}
#: first match wins
_BY_LOG: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"lar::ModelError", Reason.MODEL_INVALID),
        (r"lar::InputError", Reason.INPUT_WRONG),
        (r"access invalid Maybe value", Reason.MODEL_INVALID),
        (r"model verification failed", Reason.MODEL_INVALID),
        (r"m_offset (\+ size )?<= m_size", Reason.MODEL_INVALID),
        (r"invalid model format|m_format\.valid\(\)", Reason.MODEL_INVALID),
        # in a backtrace: the loader itself gave up
        (r"mgb13serialization", Reason.MODEL_INVALID),
        (r"can't find te\w+ named", Reason.INPUT_WRONG),
        (r"attempt to access dtype", Reason.INPUT_WRONG),
        # shapes are inferred before anything runs: what fails there does not fit together
        (r"get_output_var_shape|deduce_layout|static_infer", Reason.INPUT_WRONG),
        (
            r"failed to (malloc|alloc)|bad_alloc|MemoryError|Cannot allocate memory|out of memory",
            Reason.OUT_OF_MEMORY,
        ),
        (r"ERROR: (unknown command line flag|illegal value)", Reason.OPTION_UNKNOWN),
    )
)
_WHAT = re.compile(r"what\(\):\s*(.+)")
_EXTRA = re.compile(r"^extra message: (.+)$", re.MULTILINE)
_OTHER_SHAPE = re.compile(r'input ".*" is \{.*\}, the model was made for \{.*\}')
_ERROR = re.compile(r"^ERROR: .+$", re.MULTILINE)


def diagnose(report: AttemptFinished, log_tail: str) -> tuple[str, str]:
    """Return (reason code, one line of detail) for an attempt that did not succeed."""
    if report.reason in _BY_REASON:
        return _BY_REASON[report.reason].value, report.detail
    cause = _cause(log_tail)
    detail = cause or report.detail
    for pattern, reason in _BY_LOG:
        if pattern.search(log_tail):
            return reason.value, detail
    if report.exit_code == KILLED:
        return Reason.OUT_OF_MEMORY.value, detail
    if report.exit_code in SIGNALS and not cause:
        return Reason.CRASHED.value, SIGNALS[report.exit_code]
    return Reason.RUN_FAILED.value, detail


def _cause(log_tail: str) -> str:
    """The library's own sentence, after what it may be due to; without C++ type and backtrace."""
    said = _EXTRA.findall(log_tail) or _WHAT.findall(log_tail) or _ERROR.findall(log_tail)
    if not said:
        return ""
    return "; ".join([*_OTHER_SHAPE.findall(log_tail), said[-1].strip()])
