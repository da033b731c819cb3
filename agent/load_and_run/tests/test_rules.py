"""What load_and_run forbids, ignores, crashes or hangs on is refused before anything runs."""

from pathlib import Path

import pytest
from load_and_run import devices, rules
from load_and_run.errors import FlagError
from load_and_run.flag_table import COMPILED_ONLY, FLAGS
from load_and_run.flags import parse


def refusal(*arguments: str) -> str:
    flags, _ = parse(list(arguments))
    with pytest.raises(FlagError) as caught:
        rules.check(flags)
    text = str(caught.value)
    assert text.startswith("ERROR: --")
    assert "\n" not in text
    return text


def accepted(*arguments: str) -> None:
    rules.check(parse(list(arguments))[0])


@pytest.fixture(autouse=True)
def intel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_amd", lambda: False)


def test_there_are_the_74_flags_of_load_and_run() -> None:
    assert len(set(FLAGS) - {"help", "version"}) == 74
    assert len(COMPILED_ONLY) == 12


@pytest.mark.parametrize("name", COMPILED_ONLY)
def test_what_the_wheel_cannot_do_is_refused_by_name(name: str) -> None:
    value = "" if FLAGS[name][0] == "bool" else "=x"
    assert f"--{name} needs a compiled load_and_run" in refusal(f"--{name}{value}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--thread=0", "must be positive"),
        ("--thread=-1", "must be positive"),
        ("--batch_size=0", "must be positive"),
        ("--multithread=0", "must be positive"),
        ("--multithread_default=-3", "must be positive"),
        ("--fast_run_shared_batch_size=-1 --fast_run", "not be negative"),
        ("--range=-1", "positive"),
        ("--range=nan", "positive"),
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
        ("--record_comp_seq --fake_first", "--fake_first and --record_comp_seq"),
        ("--record_comp_seq --io_dump=a", "dumps nothing"),
        ("--batch_size=2 --input=data:{1,2}", "would be ignored"),
        ("--fast_run_shared_batch_size=2", "needs --fast_run"),
        ("--fast_run_algo_policy=missing", "no file missing; add --fast_run"),
        ("--layout_transform_dump=a", "needs --layout_transform"),
        ("--layout_transform=arm", "must be cpu or cuda"),
        ("--layout_transform=cuda", "add --cuda"),
        ("--layout_transform=cpu --cuda", "leave out --cuda"),
        ("--tensorrt_cache=a --cuda", "needs --tensorrt"),
        ("--tensorrt", "needs --cuda"),
        ("--enable_jit", "needs --cuda"),
        ("--c_opr_lib=missing.so", "no file missing.so"),
        ("--get_static_mem_info=a-b", "digits, letters and /"),
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
def test_what_cannot_work_is_refused_with_its_reason(arguments: str, text: str) -> None:
    assert text in refusal(*arguments.split())


@pytest.mark.parametrize(
    "flag",
    [
        "io_dump_stdout",
        "io_dump_stderr",
        "bin_out_dump=d",
        "enable_chwn4",
        "fuse_grain",
        "enable_fuse_conv_bias_nonlinearity",
        "enable_fuse_conv_bias_with_z",
        "optimize_for_inference",
        "disable_mem_opt",
        "range=1",
        "get_static_mem_info=d",
        "model_dump=m",
        "share_param_mem",
        "reproducible",
    ],
)
def test_what_load_and_run_lacks_in_lite_mode_is_refused_there(flag: str) -> None:
    text = refusal("--lite", f"--{flag}")
    assert text.startswith(f"ERROR: --{flag.partition('=')[0]} ")
    assert "with --lite" in text
    accepted(f"--{flag}")


@pytest.mark.parametrize("flag", ["enable_nchw88", "layout_transform=cpu"])
def test_an_amd_cpu_is_kept_from_what_hangs_there(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(f"--{flag}")
    monkeypatch.setattr(devices, "is_amd", lambda: True)
    assert "AMD" in refusal(f"--{flag}")


def test_a_cache_that_exists_needs_no_fast_run(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(bytes(4))
    accepted(f"--fast_run_algo_policy={cache}", "--fast_run_shared_batch_size=2")


def test_a_packed_model_has_the_rules_of_lite_mode(tmp_path: Path) -> None:
    packed = tmp_path / "m"
    packed.write_bytes(b"packed_model" + b"\0" * 20)
    for flag in ("--model_dump=x", "--enable_ioc16", "--mdl", "--reproducible"):
        with pytest.raises(FlagError, match=r"packed model"):
            rules.check_model(str(packed), parse([flag])[0])
    rules.check_model(str(packed), parse(["--io_dump=x"])[0])


def test_no_output_may_replace_the_model(tmp_path: Path) -> None:
    model = tmp_path / "m.mge"
    model.write_bytes(b"x" * 20)
    link = tmp_path / "link"
    link.symlink_to(model)
    for flag in ("profile", "io_dump", "model_dump"):
        with pytest.raises(FlagError, match=f"--{flag} would overwrite the model"):
            rules.check_model(str(model), parse([f"--{flag}={link}"])[0])


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\1\0\0\0\xff\0\0\0", bytes(5)])
def test_a_broken_cache_is_refused_since_it_would_crash_the_library(
    tmp_path: Path, content: bytes
) -> None:
    cache = tmp_path / "cache"
    cache.write_bytes(content)
    assert "is no cache of algorithms" in refusal("--fast_run", f"--fast_run_algo_policy={cache}")


def test_a_second_level_recording_is_kept_from_batch_normalization(tmp_path: Path) -> None:
    model = tmp_path / "m.mge"
    model.write_bytes(bytes(5000) + b"layer1.bn.BatchNorm:o0" + bytes(50))
    flags = ["--record_comp_seq2", "--no_sanity_check"]
    with pytest.raises(FlagError, match=r"add --optimize_for_inference"):
        rules.check_model(str(model), parse(flags)[0])
    rules.check_model(str(model), parse([*flags, "--optimize_for_inference"])[0])
