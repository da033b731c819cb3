"""Flags that load_and_run forbids, ignores, crashes or hangs on are rejected before the run."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from load_and_run import devices, graph_passes, rules
from load_and_run.errors import FlagError
from load_and_run.flags import COMPILED_ONLY, FLAGS, parse

from agent.execution.plan import PassBuilder
from agent.load_and_run.tests.running import Runner, model
from agent.protocol.options import OPTIONS, Capabilities, OptionError
from agent.protocol.plan import Plan


def rejection(*arguments: str) -> str:
    flags, _ = parse(list(arguments))
    with pytest.raises(FlagError) as caught:
        rules.check(flags)
    text = str(caught.value)
    assert text.startswith("ERROR: --")
    assert "\n" not in text
    return text


def check_accepted(*arguments: str) -> None:
    rules.check(parse(list(arguments))[0])


@pytest.fixture(autouse=True)
def intel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_amd", lambda: False)


def test_there_are_the_74_flags_of_load_and_run() -> None:
    assert len(set(FLAGS) - {"help", "version"}) == 74
    assert len(COMPILED_ONLY) == 12


@pytest.mark.parametrize("name", COMPILED_ONLY)
def test_flags_of_compiled_binaries_are_rejected_by_name(name: str) -> None:
    value = "" if FLAGS[name][0] == "bool" else "=x"
    assert f"--{name} needs a compiled load_and_run" in rejection(f"--{name}{value}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--thread=0", "must be at least 1"),
        ("--thread=-1", "must be at least 1"),
        ("--batch_size=2", "the agent makes inputs of that batch"),
        ("--multithread=0", "must be at least 1"),
        ("--multithread_default=-3", "must be at least 1"),
        ("--fast_run_shared_batch_size=-1 --fast_run", "must be at least 1"),
        ("--range=-1", "must be at least 1e-30"),
        ("--range=nan", "must be at least 1e-30"),
        ("--enable_nchw4 --enable_nchw44", "one layout"),
        ("--io_dump=a --bin_io_dump=b", "share one destination"),
        ("--io_dump_stdout --io_dump_stderr", "share one destination"),
        ("--fast_run --full_run", "give one"),
        ("--cpu --cpu_default", "one of these devices"),
        ("--multithread=2 --multithread_default=2", "one of these devices"),
        ("--record_comp_seq --record_comp_seq2 --no_sanity_check", "give one"),
        ("--record_comp_seq --profile=p", "cannot be profiled"),
        ("--record_comp_seq2 --no_sanity_check --profile_host=p", "cannot be profiled"),
        ("--record_comp_seq2", "needs --no_sanity_check"),
        ("--record_comp_seq --fake_first", "--record_comp_seq and --fake_first"),
        ("--record_comp_seq --io_dump=a", "dumps nothing"),
        ("--fast_run_shared_batch_size=2", "needs --fast_run"),
        ("--fast_run_algo_policy=missing", "needs --fast_run or --full_run"),
        ("--layout_transform_dump=a", "needs --layout_transform"),
        ("--layout_transform=arm", "must be cpu or cuda"),
        ("--layout_transform=cuda", "add --cuda"),
        ("--layout_transform=cpu --cuda", "leave out --cuda"),
        ("--tensorrt_cache=a --cuda", "needs --tensorrt"),
        ("--tensorrt", "needs --cuda"),
        ("--enable_nchw4", "needs --cuda"),
        ("--cpu --cuda", "one of these devices"),
        ("--lite --mdl", "give one of them"),
        ("--enable_jit", "needs --cuda"),
        ("--c_opr_lib=missing.so", "no file missing.so"),
        ("--get_static_mem_info=a-b", "digits, letters and /"),
        ("--get_static_mem_info=a_b", "digits, letters and /"),
        ("--get_static_mem_info=../a", "digits, letters and /"),
        ("--get_static_mem_info=a.b", "digits, letters and /"),
        ("--get_static_mem_info=/tmp", "begins with no /"),
        ("--multi_thread_core_ids=0", "needs --multithread"),
        ("--multithread=2 --multi_thread_core_ids=0", "1 cores for 2 threads"),
        ("--multithread=1 --multi_thread_core_ids=a", "write it as 0,1"),
        ("--multithread=1 --multi_thread_core_ids=4095", "may use the cores"),
        ("--thread=2 --io_dump=a", "write over each other"),
        ("--mdl --thread=2", "--mdl together"),
        ("--mdl --fake_first", "hangs"),
        ("--mdl --workspace_limit=1", "--workspace_limit and --mdl"),
        ("--disable_mem_opt --cpu_default", "--cpu_default and --disable_mem_opt"),
    ],
)
def test_invalid_combinations_are_rejected_with_the_reason(arguments: str, text: str) -> None:
    assert text in rejection(*arguments.split())


@pytest.mark.parametrize(
    "flag",
    [
        "io_dump_stdout",
        "io_dump_stderr",
        "bin_out_dump=d",
        "enable_chwn4 --cuda",
        "fuse_grain",
        "enable_fuse_conv_bias_nonlinearity",
        "enable_fuse_conv_bias_with_z --cuda",
        "optimize_for_inference",
        "disable_mem_opt",
        "range=1",
        "get_static_mem_info=d",
        "model_dump=m",
        "share_param_mem",
        "reproducible",
    ],
)
def test_flags_that_lite_mode_lacks_are_rejected_with_lite(flag: str) -> None:
    arguments = f"--{flag}".split()
    text = rejection("--lite", *arguments)
    assert text.startswith(f"ERROR: {arguments[0].partition('=')[0]} ")
    assert "with --lite" in text
    check_accepted(*arguments)


def test_flags_that_hang_on_amd_are_rejected_there(monkeypatch: pytest.MonkeyPatch) -> None:
    check_accepted("--enable_nchw88")
    monkeypatch.setattr(devices, "is_amd", lambda: True)
    assert "AMD" in rejection("--enable_nchw88")


def test_layout_transform_of_convolutions_is_rejected_on_amd(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain, packed = tmp_path / "m.mge", tmp_path / "packed"
    plain.write_bytes(b"x" * 20)
    packed.write_bytes(b"packed_model" + b"\0" * 20)
    types = ["Elemwise", "ConvBiasForward"]
    monkeypatch.setattr(graph_passes, "operator_types", lambda _: types)
    transform = parse(["--layout_transform=cpu"])[0]
    rules.check_operators(str(plain), transform)
    monkeypatch.setattr(devices, "is_amd", lambda: True)
    with pytest.raises(FlagError, match=r"hangs MegEngine on AMD .* has ConvBiasForward"):
        rules.check_operators(str(plain), transform)
    with pytest.raises(FlagError, match=r"cannot be told of a packed model"):
        rules.check_operators(str(packed), transform)
    rules.check_operators(str(plain), parse([])[0])
    types[1] = "PoolingForward"
    rules.check_operators(str(plain), transform)


TRANSFORM = ("--layout_transform=cpu", "--layout_transform_dump=t.mge")
AMD_RUN = """
import sys
from load_and_run import devices, program
from load_and_run.__main__ import leave
devices.is_amd = lambda: True
leave(program.main(sys.argv))
"""


@pytest.mark.parametrize("name", ["resnet18", "resnet18_fbs1", "quantized"])
def test_on_amd_convolutions_are_found_in_all_model_formats(
    run: Runner, tmp_path: Path, name: str
) -> None:
    done = run.script(AMD_RUN, model(name), *TRANSFORM)
    assert done.returncode == 1, done.stderr
    assert "ERROR: --layout_transform=cpu hangs MegEngine on AMD CPUs" in done.stderr
    assert not (tmp_path / "t.mge").exists()


def test_on_amd_a_model_without_convolutions_supports_layout_transform(run: Runner) -> None:
    done = run.script(AMD_RUN, model("tiny"), *TRANSFORM)
    assert done.returncode == 0, done.stderr
    assert "=== finished test #0" in done.stderr
    assert run("t.mge", "--iter=1").returncode == 0


def test_an_existing_algorithm_cache_needs_no_fast_run(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(bytes(4))
    check_accepted(f"--fast_run_algo_policy={cache}", "--fast_run_shared_batch_size=2")


def test_a_packed_model_has_the_rules_of_lite_mode(tmp_path: Path) -> None:
    packed = tmp_path / "m"
    packed.write_bytes(b"packed_model" + b"\0" * 20)
    for flag in ("--model_dump=x", "--enable_ioc16", "--mdl", "--reproducible"):
        with pytest.raises(FlagError, match=r"packed model"):
            rules.check_model(str(packed), parse([flag])[0])
    rules.check_model(str(packed), parse(["--io_dump=x"])[0])


def test_an_output_that_would_overwrite_the_model_is_rejected(tmp_path: Path) -> None:
    model = tmp_path / "m.mge"
    model.write_bytes(b"x" * 20)
    link = tmp_path / "link"
    link.symlink_to(model)
    for flag in ("profile", "io_dump", "model_dump"):
        with pytest.raises(FlagError, match=f"--{flag} would overwrite the model"):
            rules.check_model(str(model), parse([f"--{flag}={link}"])[0])


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\1\0\0\0\xff\0\0\0", bytes(5)])
def test_a_damaged_algorithm_cache_is_rejected(tmp_path: Path, content: bytes) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(content)
    assert "is no cache of algorithms" in rejection("--fast_run", f"--fast_run_algo_policy={cache}")


def test_record_comp_seq2_is_rejected_for_batch_norm(tmp_path: Path) -> None:
    model = tmp_path / "m.mge"
    model.write_bytes(bytes(5000) + b"layer1.bn.BatchNorm:o0" + bytes(50))
    flags = ["--record_comp_seq2", "--no_sanity_check"]
    with pytest.raises(FlagError, match=r"add --optimize_for_inference"):
        rules.check_model(str(model), parse(flags)[0])
    rules.check_model(str(model), parse([*flags, "--optimize_for_inference"])[0])


FILE = object()
LIBRARY = "library.so"
GPU = frozenset({"cuda", "tensorrt", "opencl"})
WHEELS = {
    "amd": Capabilities("wheel", libraries=frozenset({"mine"}), cpu_model="AMD EPYC", cores=8),
    "intel": Capabilities("wheel", libraries=frozenset({"mine"}), cpu_model="Intel Xeon"),
    "gpu": Capabilities("wheel", builds=GPU, libraries=frozenset({"mine"}), cpu_model="Intel"),
}
PLANS = {
    "profiled": Plan(preset="custom", clean=True, profiled=2),
    "clean": Plan(preset="custom", clean=True, profiled=0),
}
TEXTS = {
    "multi_thread_core_ids": "0,1",
    "check_var_value": "1:0",
    "c_opr_init_interface": "start",
    "c_opr_lib": "mine",
}


def sensible_values(name: str) -> list[Any]:
    option = OPTIONS[name]
    if option.kind == "agent":
        return []
    if option.kind in ("bool", "artifact", "file"):
        return [option.default is not True, *([FILE] if option.file_taken else [])]
    if option.kind in ("int", "float"):
        return [2 if option.kind == "int" else 2.5]
    return list(option.choices) or [TEXTS[name]]


def option_sets() -> Iterator[dict[str, Any]]:
    """Yield every option and every pair, with the options that they need."""
    single = [(name, value) for name in OPTIONS for value in sensible_values(name)]
    pairs = [pair for pair in itertools.combinations(single, 2) if pair[0][0] != pair[1][0]]
    for chosen in (*((name,) for name in single), *pairs):
        options = dict(chosen)
        yield options
        if options != (completed := with_needs(options)):
            yield completed


def with_needs(options: dict[str, Any]) -> dict[str, Any]:
    for name in options:
        for needs in (OPTIONS[name].needs, OPTIONS[name].wheel_needs):
            if needs and not set(needs) & set(options):
                return with_needs({**options, needs[0]: sensible_values(needs[0])[0]})
    if options.get("layout_transform") == "cuda" and "cuda" not in options:
        return with_needs({**options, "cuda": True})
    return options


def command_lines(options: dict[str, Any], able: Capabilities, plan: Plan) -> list[tuple[str, ...]]:
    """Return the command lines of all passes. Raises OptionError."""
    order: Any = SimpleNamespace(
        options={name: value for name, value in options.items() if value is not FILE},
        data=[SimpleNamespace(option=name) for name in options if options[name] is FILE],
        model=SimpleNamespace(name="m.mge"),
        plan=plan,
    )
    builder = PassBuilder(order, able, {"mine": LIBRARY})
    fed = {"data": "data.npy"}
    passes = [builder.inspect(), builder.clean(fed, first=True, iterations=20)]
    if plan.profiled:
        passes += [builder.profiled(fed, first=first) for first in (True, False)]
    if builder.dumps:
        passes.append(builder.dump(fed))
    return [step.arguments for step in passes]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("wheel", WHEELS)
def test_all_options_that_the_form_accepts_are_accepted(
    wheel: str, plan: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(devices, "is_amd", lambda: wheel == "amd")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    Path(LIBRARY).touch()
    cache = Path(OPTIONS["fast_run_algo_policy"].file)
    accepted_sets, refused = [], []
    for options in option_sets():
        try:
            lines = command_lines(options, WHEELS[wheel], PLANS[plan])
        except OptionError:
            continue
        accepted_sets.append(set(options))
        if options.get("fast_run_algo_policy") is FILE:
            cache.write_bytes(bytes(4))
        try:
            for line in dict.fromkeys(lines):
                rules.check(parse(list(line))[0])
        except FlagError as error:
            refused.append((frozenset(options), str(error)))
        cache.unlink(missing_ok=True)
    assert refused == []
    # the sets cover all options of the wheel
    tried = set().union(*accepted_sets)
    able = {n for n, o in OPTIONS.items() if o.wheel and not o.platform and o.kind != "agent"}
    able -= {"enable_nchw88"} if wheel == "amd" else set()
    able -= {n for n in able if OPTIONS[n].alone} if plan == "profiled" else set()
    assert able <= tried
    assert len(accepted_sets) > 800
