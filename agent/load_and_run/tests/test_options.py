"""The effect of each option is that of load_and_run, with real models."""

import json
import os
import re
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from agent.load_and_run.tests.running import Runner, assert_died, model
from testdata import DATA

pytestmark = pytest.mark.megengine

DATA_NPY = DATA / "inputs" / "two_inputs" / "data.npy"
TWO_INPUTS = f"--input=data:{DATA_NPY};mask:{DATA / 'inputs' / 'two_inputs' / 'mask.npy'}"


def run_successfully(run: Runner, *arguments: str) -> str:
    """Return the log of a run that must succeed."""
    ended = run(*arguments)
    assert ended.returncode == 0, ended.stderr
    assert "=== total time: " in ended.stderr
    return ended.stderr


def graph(run: Runner, *arguments: str) -> dict:
    """Return the profile of a run."""
    run_successfully(run, *arguments, "--iter=1", "--profile=p.json")
    return json.loads((run.folder / "p.json").read_text())


def eight_inputs(run: Runner, values: np.ndarray) -> str:
    """Return the argument that passes eight numbers to the model `tiny`."""
    np.save(run.folder / "eight.npy", values.astype(np.float32).reshape(1, 8))
    return "--input=data:eight.npy"


def operator_types(profile: dict) -> Counter:
    return Counter(operator["type"] for operator in profile["graph_exec"]["operator"].values())


def comp_nodes(profile: dict) -> set[str]:
    """Return the names of the comp nodes that operators ran on."""
    names = (node for nodes in profile["profiler"]["device"].values() for node in nodes)
    return {re.findall(r'"([^"]+)"', name)[0] for name in names}


def warm_up_ms(log: str) -> float:
    return float(re.findall(r"warm up 0  ([\d.]+)ms", log)[0])


def best_ms(log: str) -> float:
    return float(re.findall(r" min=([\d.]+) ms", log)[0])


def read_tensor(path: Path) -> tuple[str, np.ndarray]:
    """Read a tensor file like megengine.tools.compare_binary_iodump."""
    content = path.read_bytes()
    length, kind, axes = struct.unpack_from("<3I", content)
    shape = [n for n in struct.unpack_from(f"<{axes}I", content, 12) if n]
    name = content[12 + 4 * axes :][:length].decode()
    dtype = {0: "float32", 4: "int32"}[kind]
    return name, np.frombuffer(content[12 + 4 * axes + length :], dtype).reshape(shape)


def test_an_unsupported_option_prints_one_line_and_exits_with_1(run):
    ended = run(model("tiny"), "--fitting")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "ERROR: --fitting needs a compiled load_and_run; the wheel does not support it\n"
    )


def test_each_thread_runs_a_copy_and_writes_whole_lines(run):
    log = run_successfully(run, model("tiny"), "--thread=3", "--iter=4", "--profile=p.json")
    assert log.count("load model: ") == log.count("=== total time: ") == 3
    assert len(re.findall(r"\n\[[^]]+\] iter \d/4: e2e=[\d.]+ ms \(host=[\d.]+ ms\)", log)) == 12
    assert json.loads((run.folder / "p.json").read_text())["graph_exec"]["comp_seq"]


def test_a_failure_in_a_thread_ends_the_run(run):
    ended = run(model("tiny"), "--thread=2", f"--input=wrong:{DATA_NPY}")
    assert_died(ended, "lar::InputError", 'input "wrong" is not an input of the model')


@pytest.mark.exhaustive
def test_shared_parameters_give_the_same_outputs(run):
    run_successfully(run, model("two_inputs"), TWO_INPUTS, "--iter=0", "--bin_out_dump=a")
    run_successfully(
        run, model("two_inputs"), TWO_INPUTS, "--iter=0", "--bin_out_dump=b", "--share_param_mem"
    )
    (first,) = (run.folder / "a").iterdir()
    assert first.read_bytes() == (run.folder / "b" / first.name).read_bytes()


def test_each_input_gets_its_own_file(run):
    mask = np.full((2, 1, 32, 32), 0.5, np.float32)
    np.save(run.folder / "mask.npy", mask)
    run_successfully(
        run,
        model("two_inputs"),
        f"--input=data:{DATA_NPY};mask:mask.npy",
        "--bin_io_dump=d",
        "--iter=0",
    )
    dumped = [read_tensor(path) for path in (run.folder / "d").iterdir()]
    (mask,) = [array for name, array in dumped if "{Host2DeviceCopy}, name:mask," in name[:150]]
    (data,) = [array for name, array in dumped if "{Host2DeviceCopy}, name:data," in name[:150]]
    assert (mask == 0.5).all()
    assert (data == np.load(DATA_NPY)).all()


@pytest.mark.parametrize("mode", [[], ["--mdl"]], ids=["lite", "mdl"])
def test_outputs_are_written_after_each_run(run, mode):
    data = np.arange(-3.5, 4.5, dtype=np.float32)
    values = eight_inputs(run, data)
    run_successfully(run, model("tiny"), values, "--iter=2", "--bin_out_dump=new/o", *mode)
    files = sorted((run.folder / "new" / "o").iterdir())
    assert [file.name for file in files] == ["run0-var11", "run1-var11", "run2-var11"]
    for file in files:
        name, array = read_tensor(file)
        assert name == "RELU"
        assert array.tolist() == [np.maximum(data * 2 + 1, 0).tolist()]


def test_text_dumps_are_written_to_a_file_stdout_or_stderr(run):
    values = eight_inputs(run, np.arange(1, 9))
    run_successfully(run, model("tiny"), values, "--iter=0", "--io_dump=dump.txt")
    text = (run.folder / "dump.txt").read_text()
    assert "var3 produced: name=data layout={1(8),8(1) Float32}" in text
    for more in ([], ["--profile=p.json"]):
        to_stdout = run(model("tiny"), values, "--iter=0", "--io_dump_stdout", *more)
        assert to_stdout.stdout == text
    to_stderr = run(model("tiny"), values, "--iter=0", "--io_dump_stderr")
    assert (to_stderr.returncode, to_stderr.stdout) == (0, "")
    assert all(line in to_stderr.stderr for line in text.splitlines())


def test_the_error_for_a_failed_dump_suggests_a_flag(run):
    ended = run(model("resnet18"), "--io_dump=d", "--iter=1", "--no_sanity_check")
    assert_died(ended, "mgb::MegBrainError", "add --optimize_for_inference")


def test_the_cache_of_fast_run_is_written_and_used(run):
    fast = ("--fast_run", "--fast_run_algo_policy=cache", "--no_sanity_check", "--iter=1")
    first = run_successfully(run, model("two_inputs"), TWO_INPUTS, *fast)
    cache = (run.folder / "cache").read_bytes()
    assert len(cache) > 500
    second = min(
        warm_up_ms(run_successfully(run, model("two_inputs"), TWO_INPUTS, *fast)) for _ in range(2)
    )
    assert second < warm_up_ms(first) / 3
    assert (run.folder / "cache").read_bytes() == cache
    run_successfully(run, model("two_inputs"), TWO_INPUTS, *fast[1:])  # the cache alone
    assert (run.folder / "cache").read_bytes() == cache


@pytest.mark.parametrize(
    "flag", ["full_run", "fast_run_shared_batch_size=1", "binary_equal_between_batch"]
)
def test_search_options_change_the_algorithm_cache(run, flag):
    common = (model("two_inputs"), TWO_INPUTS, "--iter=0", "--no_sanity_check")
    run_successfully(run, *common, "--fast_run", "--fast_run_algo_policy=plain")
    search = [f"--{flag}"] + ([] if flag == "full_run" else ["--fast_run"])
    run_successfully(run, *common, *search, "--fast_run_algo_policy=other")
    plain, other = ((run.folder / name).read_bytes() for name in ("plain", "other"))
    assert other
    assert plain != other


def test_reproducible_is_logged(run):
    log = run_successfully(run, model("two_inputs"), TWO_INPUTS, "--reproducible", "--iter=1")
    assert "enable reproducible strategy for algo profile" in log


def test_a_layout_changes_the_operators(run):
    plain = operator_types(graph(run, model("resnet18_opt"), "--no_sanity_check"))
    nchw44 = operator_types(
        graph(run, model("resnet18_opt"), "--no_sanity_check", "--enable_nchw44")
    )
    assert nchw44["RelayoutFormat"] + nchw44["Dimshuffle"] > plain["Dimshuffle"]


def test_the_error_for_a_layout_with_batch_norm_suggests_a_flag(run):
    ended = run(model("resnet18"), "--enable_nchw44", "--iter=1")
    assert_died(ended, "mgb::AssertionError", "add --optimize_for_inference")


@pytest.mark.exhaustive
def test_graph_passes_are_applied_before_the_run(run):
    flags = ("--optimize_for_inference", "--model_dump=m.mge", "--cpu", "--no_sanity_check")
    profile = graph(run, model("resnet18"), *flags)
    assert operator_types(profile)["BatchNormForward"] == 0
    run_successfully(run, str(run.folder / "m.mge"), "--iter=1", "--no_sanity_check")


@pytest.mark.exhaustive
def test_static_memory_info_depends_on_the_batch_size_of_the_run(run):
    def size(name: str, *arguments: str) -> int:
        run_successfully(
            run, model("two_inputs"), f"--get_static_mem_info={name}", "--iter=1", *arguments
        )
        info = json.loads((run.folder / name / "StaticMemoryInfo.json").read_text())
        return max(int(chunk["logic_addr_end"]) for chunk in info["chunk"].values())

    for name in ("data", "mask"):
        held = np.load(DATA / "inputs" / "two_inputs" / f"{name}.npy")
        np.save(run.folder / f"{name}.npy", np.repeat(held, 4, axis=0))
    assert size("a", "--input=data:data.npy;mask:mask.npy") > size("b")


def run_without_rules(run: Runner, name: str, flags: list[str], script: str = "") -> str:
    """Run the model `name` without the rules, then `script`, in one process; return the output."""
    before = (
        "import sys\n"
        "from load_and_run.flags import parse\n"
        "from load_and_run.library import Network\n"
        "flags, _ = parse(sys.argv[2:])\n"
        "network = Network(sys.argv[1], flags); network.configure(flags)\n"
        "network.forward(); network.wait()\n"
    )
    ended = run.script(before + script, model(name), *flags)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_writing_the_profile_is_not_timed(run):
    """Writing takes as long as an iteration, so it would double the measured time."""
    script = (
        "import os, time\n"
        "network.profile_to('p.json'); network.forward(); ended = network.wait()\n"
        "print(time.perf_counter() - ended, os.path.getsize('p.json'))\n"
    )
    later_s, size = run_without_rules(run, "resnet18", ["--no_sanity_check"], script).split()
    assert int(size) > 100_000
    assert float(later_s) > 0.0005


def test_a_model_without_convolutions_supports_layout_transform(run):
    """Without the rules, since they reject AMD CPUs."""
    run_without_rules(run, "tiny", ["--layout_transform=cpu", "--layout_transform_dump=t.mge"])
    run_successfully(run, "t.mge", "--iter=1")


@pytest.mark.parametrize(
    ("arguments", "node"),
    [
        (["--cpu"], "cpu0:0"),
        (["--cpu_default"], "cpu:default"),
        (["--multithread=2"], "multithread2:0"),
        (["--multithread_default=2"], "multithread:default:2"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_operators_run_on_the_selected_device(run, arguments, node):
    assert comp_nodes(graph(run, model("tiny"), *arguments)) == {node}


def test_threads_are_bound_to_the_given_cores(run):
    core = min(os.sched_getaffinity(0))
    flags = ["--multithread=2", f"--multi_thread_core_ids={core},{core}"]
    assert f"set multi thread core ids:{core},{core}\n" in run_successfully(
        run, model("tiny"), *flags
    )
    script = (
        "from pathlib import Path\n"
        "lines = [line for task in Path('/proc/self/task').iterdir()\n"
        "    for line in (task / 'status').read_text().splitlines()]\n"
        "print([line.split()[1] for line in lines if line.startswith('Cpus_allowed_list')])\n"
    )
    assert run_without_rules(run, "two_inputs", flags, script).count(f"'{core}'") == 2


def test_the_error_for_cuda_without_a_gpu_suggests_a_solution(run):
    ended = run(model("tiny"), "--cuda", "--iter=1")
    if ended.returncode:
        assert_died(ended, "mgb::AssertionError", "remove --cuda")


def test_workspace_limit_changes_the_choice_of_algorithms(run):
    free = run_successfully(
        run, model("resnet18_opt"), "--iter=2", "--no_sanity_check", "--cpu_default"
    )
    tight = run_successfully(
        run,
        model("resnet18_opt"),
        "--iter=2",
        "--no_sanity_check",
        "--cpu_default",
        "--workspace_limit=1000",
    )
    assert best_ms(tight) > 3 * best_ms(free)


def test_fake_first_computes_nothing_in_the_first_run(run):
    # a first run that computes is never shorter, but each run may be delayed on a busy machine
    options = ("--iter=2", "--fake_first", "--cpu_default")
    logs = (run_successfully(run, model("resnet18_opt"), *options) for _ in range(5))
    assert any(warm_up_ms(log) < best_ms(log) for log in logs)


def test_no_sanity_check_disables_the_sanity_check(run):
    """Without the rules, as the check takes too little time to measure on a busy machine."""
    script = "print(network._network.config.options.var_sanity_check_first_run)"
    assert run_without_rules(run, "tiny", [], script) == "1\n"
    assert run_without_rules(run, "tiny", ["--no_sanity_check"], script).splitlines()[-1] == "0"
    log = run_successfully(run, model("tiny"), "--no_sanity_check", "--iter=1")
    assert "disable var sanity check optimization" in log


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "flags",
    [
        ["--record_comp_seq", "--const_shape"],
        ["--record_comp_seq2", "--no_sanity_check"],
        ["--weight_preprocess", "--enable_fuse_preprocess"],
        ["--const_shape", "--copy_to_host"],
    ],
    ids=lambda flags: flags[0],
)
def test_optimizations_do_not_change_the_outputs(run, flags):
    common = (model("two_inputs"), TWO_INPUTS, "--iter=1")
    run_successfully(run, *common, "--bin_out_dump=plain")
    log = run_successfully(run, *common, "--bin_out_dump=other", *flags)
    assert "enable" in log or "record_comp_seq_level" in log
    for path in (run.folder / "plain").iterdir():
        expected, actual = read_tensor(path)[1], read_tensor(run.folder / "other" / path.name)[1]
        assert expected.any()
        assert np.allclose(expected, actual, atol=1e-5)


def test_the_host_time_of_a_recording_is_at_most_that_of_the_run(run):
    log = run_successfully(
        run, model("resnet18_opt"), "--iter=3", "--record_comp_seq", "--no_sanity_check"
    )
    whole, host = re.findall(r"iter 2/3: e2e=([\d.]+) ms \(host=([\d.]+) ms\)", log)[0]
    assert float(host) <= float(whole)


def test_a_number_out_of_range_ends_the_run(run):
    values = eight_inputs(run, np.arange(1, 9))
    ended = run(model("tiny"), values, "--range=9")
    assert_died(ended, "mgb::NumRangeCheckerError", "value=10 range=9")
    run_successfully(run, model("tiny"), values, "--range=18")


def test_model_info_prints_the_table_of_load_and_run(run):
    log = run_successfully(
        run, model("resnet18_opt"), "--iter=1", "--model_info", "--no_sanity_check"
    )
    real = (DATA / "load_and_run" / "opt__model_info" / "stderr.txt").read_text()
    table = real[real.index("\n+Runtime") : real.index("\n\n", real.index("+Runtime")) + 2]
    assert table.count("\n") == 9
    assert log.count(table) == 2


def test_verbose_enables_debug_messages(run):
    assert "][DEBUG] create CompNode cpu0:0" in run_successfully(
        run, model("tiny"), "--verbose", "--iter=1"
    )
    assert "DEBUG" not in run_successfully(run, model("tiny"), "--iter=1")


def test_an_invalid_operator_library_ends_the_run(run):
    (run.folder / "lib.so").write_bytes(b"no library")
    ended = run(model("tiny"), "--c_opr_lib=lib.so")
    assert_died(ended, "lite::Error", "failed to open c opr lib")


def test_mdl_has_the_outputs_of_lite_and_its_own_profile(run):
    run_successfully(run, model("two_inputs"), TWO_INPUTS, "--bin_out_dump=lite", "--iter=0")
    profile = graph(run, model("two_inputs"), TWO_INPUTS, "--bin_out_dump=mdl", "--mdl")
    assert profile["graph_exec"]["comp_seq"]
    (path,) = (run.folder / "lite").iterdir()
    assert (read_tensor(path)[1] == read_tensor(run.folder / "mdl" / path.name)[1]).all()


def test_disable_mem_opt_uses_more_memory(run):
    def static(profile: dict) -> int:
        return len({chunk["dev_ptr"] for chunk in profile["graph_exec"]["mem_chunk"].values()})

    plain = graph(run, model("two_inputs"), TWO_INPUTS, "--mdl")
    assert static(graph(run, model("two_inputs"), TWO_INPUTS, "--disable_mem_opt")) > static(plain)
