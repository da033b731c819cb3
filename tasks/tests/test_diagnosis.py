"""Tests of the diagnosis: from the output of load_and_run to a reason code."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.load_and_run.tests.running import ForkServer
from agent.protocol.messages import AttemptFinished, EndReason
from tasks.lifecycle.diagnosis import diagnose, diagnose_script
from tasks.lifecycle.outcomes import ENDS
from tasks.lifecycle.reasons import wording_of


def final_report(exit_code: int | None = 134, reason=EndReason.EXITED, detail=""):
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


def test_wrong_shape_names_both_shapes_and_the_operators_message():
    code, detail = diagnose(final_report(detail="SIGABRT"), SHAPE_LOG)
    assert code == "input_shape"
    assert "data" in detail
    assert "{2,4,32,32}" in detail
    assert "{2,3,32,32}" in detail
    assert "input channel got 4, and filter channel got 3" in detail


#: output for a model that splits the output of a convolution; it runs without the layout
PASS_LOG = """\
[24 23:37:39 apply@framework.cpp:580][ERR] error while applying optimization pass \
conv_format_nchw44: assertion `size == ishp.shape[axis]' failed at tensor_manip.cpp:1035: bool \
mgb::opr::Split::infer_shape(size_t, megdnn::TensorShape&, const mgb::cg::static_infer::InpVal&)
extra message: split size sums to 8, but shape at the axis is 2

backtrace:
lib.so(_ZN3mgb2cg12static_infer22StaticInferManagerImpl12TagTraitBase5inferEbb+0x27) [0x7fec092a93]

terminate called after throwing an instance of 'mgb::AssertionError'
  what():  assertion `size == ishp.shape[axis]' failed at tensor_manip.cpp:1035: bool \
mgb::opr::Split::infer_shape(size_t, megdnn::TensorShape&, const mgb::cg::static_infer::InpVal&)
extra message: split size sums to 8, but shape at the axis is 2

backtrace:
lib.so(_ZN3mgb2cg12static_infer22StaticInferManagerImpl12TagTraitBase5inferEbb+0x27) [0x7fec092a93]
"""


def test_failed_optimization_pass_is_named():
    code, detail = diagnose(final_report(detail="SIGABRT"), PASS_LOG)
    assert code == "optimization_failed"
    assert detail == (
        "optimization pass conv_format_nchw44: split size sums to 8, but shape at the axis is 2"
    )


def test_failed_pass_after_a_shape_warning_is_a_wrong_shape():
    warning = 'input "data" is {2,4,32,32}, the model was made for {2,3,32,32}\n'
    assert diagnose(final_report(), warning + PASS_LOG)[0] == "input_shape"


def test_failed_pass_is_attributed_to_an_option_only_if_one_was_set():
    for command, code in (
        ("load_and_run net.mge --iter=10", "input_shape"),
        ("load_and_run net.mge --iter=10 --enable_nchw44", "optimization_failed"),
    ):
        report = final_report().model_copy(update={"command": command})
        assert diagnose(report, PASS_LOG)[0] == code


@pytest.mark.parametrize(
    ("exit_code", "log", "code"),
    [
        (139, "", "crashed"),
        (135, "", "crashed"),
        (133, "", "crashed"),
        (132, "iter 0/10\n", "crashed"),
        (137, "", "out_of_memory"),
        (134, "what():  failed to malloc 12884901888 bytes", "out_of_memory"),
        (134, "instance of 'lar::ModelError'\n  what():  no model", "model_invalid"),
        (134, "what():  access invalid Maybe value", "model_invalid"),
        (134, "what():  can't find tesnor named image", "input_unknown"),
        (1, "ERROR: unknown command line flag 'x'", "option_unknown"),
        (1, "something else", "run_failed"),
        (153, "", "output_too_large"),
        (
            134,
            "loading model from future runtime: version=11400\nwhat():  access invalid Maybe value",
            "model_too_new",
        ),
        (134, "what():  out of memory while requesting 12 bytes; you can", "out_of_device_memory"),
        (134, "what():  std::bad_alloc", "out_of_memory"),
        (
            134,
            "what():  assertion `0' failed\nextra message: No kernel available.",
            "operator_unsupported",
        ),
        (134, "what():  can not handle dtype Byte in print_host_val", "option_unsupported"),
        (134, "what():  to_json unsupported on RecordedComputingSequence", "option_unsupported"),
        (134, "instance of 'lar::ProfileError'\n  what():  x", "no_profile"),
        (2, "ERROR: --thread=0: the number of threads must be positive", "option_unsupported"),
        (2, "ERROR: --cuda and --mdl together: no", "option_unsupported"),
        (
            134,
            "opr out of memory/shape mismatch done\nfailed to alloc is a name of a model\n"
            "terminate called after throwing an instance of 'x'\n"
            "what():  can't find tensor named image",
            "input_unknown",
        ),
        (
            1,
            "names: bad_alloc\nERROR: illegal value 'x' specified for int64 flag",
            "option_unknown",
        ),
        (1, "MemoryError", "out_of_memory"),
        (
            134,
            'input "mask" (float32 {2,1}) is not given: the run uses whatever its memory contains\n'
            "what():  bad input shape for polyadic operator: {2,1}, {4,1}",
            "input_missing",
        ),
    ],
)
def test_output_of_a_failed_run_gives_its_reason(exit_code, log, code):
    detail = "SIGSEGV" if exit_code > 128 else ""
    assert diagnose(final_report(exit_code, detail=detail), log)[0] == code


@pytest.mark.parametrize("reason", [r for r in EndReason if r != EndReason.EXITED])
def test_every_end_reason_of_agents_has_a_message(reason):
    code, _ = diagnose(final_report(None, reason), "")
    assert wording_of(code)
    assert wording_of(reason.value) or code != reason.value


def test_only_ends_explained_by_the_log_have_no_reason():
    explained = {EndReason.EXITED, EndReason.INPUT_WRONG}
    assert {end for end in EndReason if ENDS[end].reason is None} == explained


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("err__truncated", "model_invalid"),
        ("err__no_model", "model_invalid"),
        ("err__unknown_input", "input_unknown"),
        ("err__no_such_npy", "input_unreadable"),
        ("err__cuda", "gpu_missing"),
        ("err__range", "value_out_of_range"),
        ("err__fast_and_full", "option_unsupported"),
        ("err__two_device", "option_unsupported"),
        ("err__unknown_flag", "option_unknown"),
        ("err__bad_value", "option_unknown"),
    ],
)
def test_recorded_output_of_a_binary_gives_its_reason(testdata, case, code):
    folder = testdata / "load_and_run" / case
    exit_code = json.loads((folder / "run.json").read_text())["exit_code"]
    log = (folder / "stdout.txt").read_text() + (folder / "stderr.txt").read_text()
    reason, detail = diagnose(final_report(exit_code), log)
    assert reason == code
    assert detail


#: reasons by file, for the recorded output of MegEngine 1.13
OBSERVED = {
    "empty.mge": "model_invalid",
    "png.mge": "model_invalid",
    "head_16.mge": "model_invalid",
    "truncated_half.mge": "model_invalid",
    "truncated_fbs1.mge": "model_invalid",
    "flipped_64.mge": "model_invalid",
    "memory_12g.mge": "out_of_memory",
    "more_batch.npy": "input_shape",
    "more_pixels.npy": "input_shape",
    "channels_4.npy": "input_shape",
    "ndim_3.npy": "input_shape",
    "dtype_float16.npy": "input_dtype",
    "dtype_int32.npy": "input_dtype",
    "dtype_uint64.npy": "input_dtype",
}


@pytest.mark.parametrize(("file", "code"), OBSERVED.items())
def test_recorded_output_for_a_bad_file_gives_its_reason(testdata, file, code):
    observed = json.loads((testdata / "bad" / "observed.json").read_text())
    cases = {Path(case["file"]).name: case for kind in observed.values() for case in kind}
    case = cases[file]
    output = "\n".join(case.get("run", case)["said"]).replace("RuntimeError: ", "  what():  ")
    assert diagnose(final_report(), output)[0] == code


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ("unknown_input", "input_unknown"),
        ("wrong_dtype", "input_dtype"),
        ("axes", "input_shape"),
        ("size", "input_unreadable"),
        ("too_large", "input_wrong"),
        ("of_a_newer_agent", "input_wrong"),
    ],
)
def test_an_input_rejected_by_the_agent_gives_its_reason(cause, code):
    report = final_report(None, EndReason.INPUT_WRONG).model_copy(update={"cause": cause})
    assert diagnose(report, "") == (code, "")


@pytest.fixture(scope="module")
def load_and_run(megengine_python: str) -> Iterator[Callable[..., subprocess.CompletedProcess]]:
    """A function that runs a model with some options."""
    server = ForkServer(megengine_python)
    yield lambda model, *options: server.run([str(model), "--iter=1", *options], model.parent)
    server.close()


WHEEL = [
    ("two_inputs.mge", "image:more_batch.npy", "input_unknown"),
    ("two_inputs.mge", "data:dtype_int32.npy", "input_dtype"),
    ("two_inputs.mge", "data:truncated_body.npy", "input_unreadable"),
    ("two_inputs.mge", "data:channels_4.npy;mask:@mask", "input_shape"),
    ("bad/truncated_half.mge", "", "model_invalid"),
]


@pytest.mark.parametrize(("model", "inputs", "code"), WHEEL)
def test_output_of_a_wheel_gives_its_reason(testdata, load_and_run, model, inputs, code):
    folder = testdata / "bad" / "models" if "bad/" in model else testdata / "models"
    mask = testdata / "inputs" / "two_inputs" / "mask.npy"
    items = [item.partition(":") for item in inputs.split(";") if item]
    inputs_option = ";".join(
        f"{name}:{mask if file == '@mask' else testdata / 'bad' / 'inputs' / file}"
        for name, _, file in items
    )
    options = [f"--input={inputs_option}"] if inputs_option else []
    run = load_and_run(folder / Path(model).name, *options)
    code_of_run = run.returncode if run.returncode >= 0 else 128 - run.returncode
    reason, detail = diagnose(final_report(code_of_run), run.stdout + run.stderr)
    assert (reason, bool(detail)) == (code, True), run.stderr


#: splits the output of a convolution; MegEngine 1.13 does not know that in the layout NCHW44
SPLITTING = """\
import sys
import numpy as np
import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine.jit import trace

conv = M.Conv2d(4, 8, 3)

@trace(symbolic=True, capture_as_const=True)
def run(x):
    return F.concat(F.split(conv(x), 2, axis=1)[::-1], axis=1)

run(mge.tensor(np.ones((2, 4, 12, 12), "float32")))
run.dump(sys.argv[1], arg_names=["data"], optimize_for_inference=False)
"""


LAYOUT = "--enable_nchw44"


@pytest.fixture(scope="module")
def splitting_model(megengine_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("model") / "splitting.mge"
    subprocess.run([megengine_python, "-c", SPLITTING, model], check=True, capture_output=True)
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", [[LAYOUT], ["--optimize_for_inference", LAYOUT], []])
def test_layout_option_that_fails_is_named(load_and_run, splitting_model, flags):
    run = load_and_run(splitting_model, *flags)
    assert (run.returncode == 0) == (not flags), run.stderr
    if flags:
        reason, detail = diagnose(final_report(), run.stderr)
        assert reason == "optimization_failed"
        assert "conv_format_nchw44" in detail


def test_detail_of_a_script_comes_from_the_agent_despite_a_long_log():
    detail = "RuntimeError: assertion failed; extra message: no such kernel"
    log = "step 1\n" + "lib.so(_ZN6megdnn) [0x7f50e33cd7eb]\n" * 100
    assert diagnose_script(final_report(1, detail=detail), log) == ("run_failed", detail)
    assert diagnose_script(final_report(134, detail=detail), log) == ("crashed", detail)


def test_detail_of_a_script_comes_from_its_last_line_without_one_of_the_agent():
    log = 'step 1\nTraceback (most recent call last):\n  File "a.py"\nValueError: no batch\n'
    assert diagnose_script(final_report(1), log) == ("run_failed", "ValueError: no batch")
    assert diagnose_script(final_report(134, detail="SIGABRT"), log) == (
        "crashed",
        "ValueError: no batch",
    )
    assert diagnose_script(final_report(2, detail=""), "usage: a.py\n") == (
        "run_failed",
        "usage: a.py",
    )
