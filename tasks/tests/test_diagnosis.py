"""From what load_and_run printed to a reason that a reader can act on."""

import json
import uuid

import pytest

from agent.protocol import AttemptFinished, EndReason
from tasks.diagnosis import diagnose
from tasks.reasons import WORDINGS, Reason, wording_of


def ended(exit_code: int | None = 134, reason: EndReason = EndReason.EXITED, detail: str = ""):
    return AttemptFinished(
        attempt=uuid.uuid4(), at=0.0, reason=reason, exit_code=exit_code, detail=detail
    )


SHAPE_LOG = """\
[21 03:17:14 @:92][WARN] input "data" is {2,4,32,32}, the model was made for {2,3,32,32}
terminate called after throwing an instance of 'mgb::AssertionError'
  what():  assertion `icpg == src' failed at conv.cpp:790: deduce_layout_fwd(const megdnn::
extra message: group conv channel mismatch : input channel got 4, and filter channel got 3

backtrace:
lib.so(_ZN6megdnn18ConvolutionForward13deduce_layoutERKNS_) [0x7f50e33cd7eb]
"""


def test_a_wrong_shape_names_both_shapes_and_what_the_operator_says():
    code, detail = diagnose(ended(detail="SIGABRT"), SHAPE_LOG)
    assert code == "input_wrong"
    assert "data" in detail
    assert "{2,4,32,32}" in detail
    assert "{2,3,32,32}" in detail
    assert "input channel got 4, and filter channel got 3" in detail


@pytest.mark.parametrize(
    ("exit_code", "log", "code"),
    [
        (139, "", "crashed"),
        (132, "iter 0/10\n", "crashed"),
        (137, "", "out_of_memory"),
        (134, "what():  failed to malloc 12884901888 bytes", "out_of_memory"),
        (134, "instance of 'lar::ModelError'\n  what():  no model", "model_invalid"),
        (134, "what():  access invalid Maybe value", "model_invalid"),
        (134, "what():  can't find tesnor named image", "input_wrong"),
        (1, "ERROR: unknown command line flag 'x'", "option_unknown"),
        (1, "something else", "run_failed"),
    ],
)
def test_known_ends_are_told_apart(exit_code, log, code):
    detail = "SIGSEGV" if exit_code > 128 else ""
    assert diagnose(ended(exit_code, detail=detail), log)[0] == code


@pytest.mark.parametrize("reason", [r for r in EndReason if r != EndReason.EXITED])
def test_what_an_agent_may_say_has_words(reason):
    code, _ = diagnose(ended(None, reason), "")
    assert wording_of(code)
    assert wording_of(reason.value) or code != reason.value


def test_every_reason_has_words():
    assert set(WORDINGS) == set(Reason)


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("err__truncated", "model_invalid"),
        ("err__unknown_input", "input_wrong"),
        ("err__unknown_flag", "option_unknown"),
        ("err__bad_value", "option_unknown"),
    ],
)
def test_a_real_binarys_errors_are_understood(shared_data, case, code):
    folder = shared_data / "load_and_run" / case
    exit_code = json.loads((folder / "run.json").read_text())["exit_code"]
    log = (folder / "stdout.txt").read_text() + (folder / "stderr.txt").read_text()
    found, detail = diagnose(ended(exit_code), log)
    assert found == code
    assert detail
