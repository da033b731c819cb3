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
        (r"can't find te\w+ named", Reason.INPUT_WRONG),
        (r"attempt to access dtype", Reason.INPUT_WRONG),
        (
            r"failed to (malloc|alloc)|bad_alloc|MemoryError|Cannot allocate memory|out of memory",
            Reason.OUT_OF_MEMORY,
        ),
        (r"ERROR: (unknown command line flag|illegal value)", Reason.OPTION_UNKNOWN),
    )
)
_WHAT = re.compile(r"what\(\):\s*(.+)")
_ERROR = re.compile(r"^ERROR: .+$", re.MULTILINE)


def diagnose(report: AttemptFinished, log_tail: str) -> tuple[str, str]:
    """Return (reason code, one line of detail) for an attempt that did not succeed."""
    if report.reason in _BY_REASON:
        return _BY_REASON[report.reason].value, report.detail
    detail = _cause(log_tail) or report.detail
    for pattern, reason in _BY_LOG:
        if pattern.search(log_tail):
            return reason.value, detail
    if report.exit_code == KILLED:
        return Reason.OUT_OF_MEMORY.value, detail
    if report.exit_code is not None and report.exit_code in SIGNALS and not detail:
        return Reason.CRASHED.value, SIGNALS[report.exit_code]
    return Reason.RUN_FAILED.value, detail


def _cause(log_tail: str) -> str:
    """The library's own sentence, without C++ type and backtrace."""
    if matches := _WHAT.findall(log_tail):
        return str(matches[-1]).strip()
    match = _ERROR.search(log_tail)
    return match.group(0) if match else ""
