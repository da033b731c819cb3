"""Flags that do not fit the model, the files or the machine are rejected before the run."""

import pytest
from load_and_run import devices, graph_passes, rules
from load_and_run.errors import FlagError
from load_and_run.flags import COMPILED_ONLY, DEFAULTS, OPTIONS, parse

from agent.load_and_run.tests.running import model


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


def test_there_are_the_74_flags_of_load_and_run():
    assert len(DEFAULTS) == 74
    assert len(COMPILED_ONLY) == 13


@pytest.mark.parametrize("name", COMPILED_ONLY)
def test_flags_of_compiled_binaries_are_rejected_by_name(name):
    value = "=x" if OPTIONS[name].get("type") else ""
    assert f"--{name} needs a compiled load_and_run" in rejection(f"--{name}{value}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--c_opr_lib=missing.so", "missing.so does not exist"),
        ("--multithread=1 --multi_thread_core_ids=4095", "can use only cores"),
    ],
)
def test_what_is_missing_on_this_machine_is_named(arguments, text):
    assert text in rejection(*arguments.split())


def test_flags_that_hang_on_amd_are_rejected_there(monkeypatch):
    check_accepted("--enable_nchw88")
    monkeypatch.setattr(devices, "is_amd", lambda: True)
    assert "AMD" in rejection("--enable_nchw88")


def test_layout_transform_of_convolutions_is_rejected_on_amd(monkeypatch, tmp_path):
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
    with pytest.raises(FlagError, match=r"cannot be checked for a packed model"):
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
def test_on_amd_convolutions_are_found_in_all_model_formats(run, tmp_path, name):
    done = run.script(AMD_RUN, model(name), *TRANSFORM)
    assert done.returncode == 1, done.stderr
    assert "ERROR: --layout_transform=cpu hangs MegEngine on AMD CPUs" in done.stderr
    assert not (tmp_path / "t.mge").exists()


def test_on_amd_a_model_without_convolutions_supports_layout_transform(run):
    done = run.script(AMD_RUN, model("tiny"), *TRANSFORM)
    assert done.returncode == 0, done.stderr
    assert "=== finished test #0" in done.stderr
    assert run("t.mge", "--iter=1").returncode == 0


def test_a_packed_model_has_the_rules_of_lite_mode(tmp_path):
    packed = tmp_path / "m"
    packed.write_bytes(b"packed_model" + b"\0" * 20)
    for flag in ("--model_dump=x", "--enable_ioc16", "--mdl", "--reproducible"):
        with pytest.raises(FlagError, match=r"packed model"):
            rules.check_model(str(packed), parse([flag])[0])
    rules.check_model(str(packed), parse(["--io_dump=x"])[0])


def test_an_output_that_would_overwrite_the_model_is_rejected(tmp_path):
    model = tmp_path / "m.mge"
    model.write_bytes(b"x" * 20)
    link = tmp_path / "link"
    link.symlink_to(model)
    for flag in ("profile", "io_dump", "model_dump"):
        with pytest.raises(FlagError, match=f"--{flag} would overwrite the model"):
            rules.check_model(str(model), parse([f"--{flag}={link}"])[0])


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\1\0\0\0\xff\0\0\0", bytes(5)])
def test_a_damaged_algorithm_cache_is_rejected(tmp_path, content):
    cache = tmp_path / "cache"
    cache.write_bytes(content)
    assert "not a cache of algorithms" in rejection("--fast_run", f"--fast_run_algo_policy={cache}")


def test_record_comp_seq2_is_rejected_for_batch_norm(tmp_path):
    model = tmp_path / "m.mge"
    model.write_bytes(bytes(5000) + b"layer1.bn.BatchNorm:o0" + bytes(50))
    flags = ["--record_comp_seq2", "--no_sanity_check"]
    with pytest.raises(FlagError, match=r"add --optimize_for_inference"):
        rules.check_model(str(model), parse(flags)[0])
    rules.check_model(str(model), parse([*flags, "--optimize_for_inference"])[0])
