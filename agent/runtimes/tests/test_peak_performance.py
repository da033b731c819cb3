"""Peak performance: the runs, the operators that count, the stored and reported results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.config import RuntimeEntry
from agent.execution.spool import lock_spool
from agent.inventory import take_inventory
from agent.protocol.options import OPTIONS
from agent.runtimes.command import Style
from agent.runtimes.config_file import append_runtime, checks_path, read_checks
from agent.runtimes.describe import RuntimeDescription
from agent.runtimes.manage import runtime_check
from agent.runtimes.peak_performance import measure_peaks

MIB = 1 << 20


def operator(kind: str, time_s: float, *, computation: float = 0, memory: int = 0, wait_s=0.0):
    return {
        "type": kind,
        "times": {"start": 1.0, "kern": 1.0 + wait_s, "end": 1.0 + wait_s + time_s},
        "footprint": {"computation": computation or None, "memory": memory},
    }


def profile_of(*operators: dict[str, Any]) -> str:
    keys = [str(number) for number in range(len(operators))]
    listed = dict(zip(keys, operators, strict=True))
    return json.dumps(
        {
            "profiler": {
                "device": {key: {"cpu0:0": operator["times"]} for key, operator in listed.items()},
                "opr_footprint": {key: operator["footprint"] for key, operator in listed.items()},
            },
            "graph_exec": {
                "operator": {key: {"type": operator["type"]} for key, operator in listed.items()}
            },
        }
    )


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


@pytest.fixture
def device(tmp_path: Path, make_script):
    """A wheel that makes models, and a load_and_run that writes given profiles."""
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    maker = make_script(
        tmp_path / "maker",
        f"""folder=$3; echo "$4" "$5" "$6" "$7" >> {tmp_path}/made.txt; shift 4
echo "$CUDA_VISIBLE_DEVICES" >> {tmp_path}/made-on.txt
for name in "$@"; do echo model > "$folder/$name.mge"; done""",
    )
    binary = make_script(
        tmp_path / "load_and_run",
        f"""echo "$@" >> {tmp_path}/ran.txt; name=${{1%.mge}}
[ -e {profiles}/$name.json ] || {{ echo "no kernel for $name" >&2; exit 134; }}
cat {profiles}/$name.json > $name.json""",
    )
    runtime = RuntimeDescription("1.13.0", "binary", str(binary))

    class FakeBinary:
        made, ran = tmp_path / "made.txt", tmp_path / "ran.txt"
        made_on = tmp_path / "made-on.txt"

        def gives(self, name: str, *operators: dict[str, Any]) -> None:
            (profiles / f"{name}.json").write_text(profile_of(*operators))

        def measure(self, style: Style = "gflags", **options: Any):
            return measure_peaks(replace(runtime, style=style), [str(maker)], **options)

    return FakeBinary()


COPIES = (
    operator("Elemwise", 0.010, memory=128 * MIB),
    operator("Elemwise", 0.008, memory=128 * MIB),
    operator("Elemwise", 0.001, memory=32 * MIB),
)


def test_the_best_operator_counts_and_the_largest_copy_is_the_roof(device):
    device.gives(
        "float32",
        operator("MatrixMul", 0.004, computation=4e8),
        operator("MatrixMul", 0.002, computation=4e8),
        # the time before the kernel starts does not count
        operator("MatrixMul", 0.002, computation=3e8, wait_s=0.5),
        # too short to be timed
        operator("MatrixMul", 0.00001, computation=1e9),
        operator("Reduce", 0.001, computation=1e12, memory=64 * MIB),
        *COPIES,
    )
    device.gives("int8", operator("ConvBiasForward", 0.001, computation=1.5e8))

    roofs = device.measure()

    assert not roofs.problem
    assert roofs.peak_flops == pytest.approx({"Float32": 2e11, "QuantizedS8": 1.5e11})
    assert roofs.copies == pytest.approx({64 * MIB: 128 * MIB / 0.008, 16 * MIB: 32 * MIB / 0.001})
    record = roofs.record()
    assert record["copy_bytes_s"] == pytest.approx(128 * MIB / 0.008)
    assert record["device"] == "cpu"
    assert ["Float16" in note for note in record["notes"]] == [False]
    assert "float16: exit code 134: no kernel for float16_small" in record["notes"]


def test_models_run_with_fast_run_and_a_profile(device):
    device.gives("float32", operator("MatrixMul", 0.002, computation=4e8), *COPIES)

    device.measure()

    first = device.ran.read_text().splitlines()[0].split()
    assert first[0] == "float32.mge"
    assert {"--cpu", "--fast_run", "--profile=float32.json", "--input=data:data.npy"} <= set(first)


@pytest.mark.parametrize(("kind", "visible"), [("cpu", ""), ("cuda", "0")])
def test_the_cpu_is_measured_without_the_gpus_of_the_device(device, monkeypatch, kind, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    device.measure(device=kind)
    assert device.made_on.read_text().splitlines() == [visible]


def test_an_old_load_and_run_gets_its_own_command_line(device):
    device.gives("float32", operator("MatrixMul", 0.002, computation=4e8), *COPIES)

    assert not device.measure(style="legacy").problem

    assert device.ran.read_text().splitlines()[0] == (
        "float32.mge --input data:data.npy --warmup-iter 1 --iter 1 --profile float32.json "
        "--cpu --fast-run"
    )


@pytest.mark.parametrize(("flops", "larger"), [(2e8, False), (2e10, True)])
def test_large_float16_products_run_only_if_small_ones_are_fast(device, flops, larger):
    device.gives("float32", operator("MatrixMul", 0.002, computation=4e8), *COPIES)
    device.gives("float16_small", operator("MatrixMul", 0.001, computation=flops * 0.001))
    device.gives("float16", operator("MatrixMul", 0.001, computation=3e8))

    roofs = device.measure()

    assert roofs.peak_flops["Float16"] == pytest.approx(3e11 if larger else flops)
    made = [line.split() for line in device.made.read_text().splitlines()]
    assert made == [["cpu", "float32", "float16_small", "int8"], *([["cpu", "float16"]] * larger)]


def test_a_runtime_that_runs_no_model_has_no_roofs_but_a_reason(device):
    roofs = device.measure()

    assert "no kernel for float32" in roofs.problem
    assert not roofs.peak_flops


@pytest.mark.parametrize("content", ["", "{", "[]", '{"profiler": {}}', '{"profiler": 7}'])
def test_a_damaged_profile_is_reported_as_the_problem(device, tmp_path, content):
    (tmp_path / "profiles" / "float32.json").write_text(content)

    assert "cannot read the profile" in device.measure().problem


def test_without_a_wheel_that_makes_models_nothing_is_measured(tmp_path, make_script):
    binary = make_script(tmp_path / "load_and_run", "exit 0")
    broken = make_script(tmp_path / "maker", "echo 'No module named megengine' >&2; exit 1")
    runtime = RuntimeDescription("1.13.0", "binary", str(binary))

    assert "No module named megengine" in measure_peaks(runtime, [str(broken)]).problem
    assert measure_peaks(runtime, []).problem == "no operator was timed"


def test_a_note_suggests_a_new_measurement_of_a_busy_device(device, monkeypatch):
    device.gives("float32", operator("MatrixMul", 0.002, computation=4e8), *COPIES)
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.0, 0.0))

    roofs = device.measure()

    assert not roofs.problem
    assert roofs.notes[0] == "the device was in use (load 1000.0): measure it again when idle"


def test_models_run_on_the_cores_of_tasks(device, tmp_path, make_script):
    device.gives("float32", operator("MatrixMul", 0.002, computation=4e8), *COPIES)
    make_script(tmp_path / "path" / "taskset", f'echo "$2" >> {tmp_path}/cores.txt; shift 2; "$@"')

    assert not device.measure(cores=(0, 2)).problem
    assert set((tmp_path / "cores.txt").read_text().split()) == {"0,2"}


# -- stored measurements ---------------------------------------------------------------------------

ROOFS = {
    "device": "cpu",
    "peak_flops": {"Float32": 1e11},
    "copy_bytes_s": 2e10,
    "notes": [],
    "measured_at": 1.8e9,
}


@pytest.fixture
def wheel(tmp_path: Path, make_script) -> RuntimeEntry:
    python = make_script(tmp_path / "wheel" / "python", 'echo \'mgw-runtime:["1.13.0", "3.10.1"]\'')
    return RuntimeEntry(version="1.13.0", kind="wheel", path=str(python))


def test_measured_peaks_are_reported_for_the_same_path_only(wheel):
    check = {"path": wheel.path, "roofs": [ROOFS]}

    (peaks,) = take_inventory([wheel], checks={"1.13.0": check})["1.13.0"].info.roofs
    assert (peaks.device, peaks.peak_flops, peaks.copy_bytes_s) == ("cpu", {"Float32": 1e11}, 2e10)

    moved = {**check, "path": "/elsewhere"}
    assert take_inventory([wheel], checks={"1.13.0": moved})["1.13.0"].info.roofs == ()


def test_a_wheel_reports_the_options_that_its_agent_knows(wheel):
    """A server with a newer table then refuses its other options at the submission."""
    assert set(take_inventory([wheel])["1.13.0"].info.flags) == set(OPTIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"copy_bytes_s": 0},
        {"copy_bytes_s": float("nan")},
        {"peak_flops": {"Float32": float("inf")}},
        {"peak_flops": {"Float32": -1}},
        {"peak_flops": 7},
        {"measured_at": "soon"},
    ],
)
def test_an_invalid_record_is_ignored(wheel, wrong):
    roofs = [{**ROOFS, **wrong}] if wrong else "none"
    checks = {"1.13.0": {"path": wheel.path, "roofs": roofs}}

    info = take_inventory([wheel], checks=checks)["1.13.0"].info
    assert info.roofs == () and not info.problem


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text('server = "https://profile.example.org"\ntoken = "t"\nspool = "spool"\n')
    return path


def test_a_check_without_limits_keeps_earlier_measurements(wheel, config, capsys):
    append_runtime(config, wheel.version, wheel.kind, wheel.path)
    checks_path(config).write_text(json.dumps({"1.13.0": {"path": wheel.path, "roofs": [ROOFS]}}))

    runtime_check(config, limits=False)

    assert read_checks(config)["1.13.0"]["roofs"] == [ROOFS]
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line.split()[:1] == ["limits"]]


def test_a_failed_measurement_is_not_repeated(wheel, config, capsys):
    append_runtime(config, wheel.version, wheel.kind, wheel.path)

    assert runtime_check(config, missing=True) == 0
    record = read_checks(config)["1.13.0"]
    # this wheel makes no models
    assert record["roofs"] == []
    assert "not measured: cpu: models could not be created" in capsys.readouterr().out

    assert runtime_check(config, missing=True) == 0
    assert capsys.readouterr().out == ""
    assert read_checks(config)["1.13.0"] == record


def test_nothing_is_measured_while_an_agent_uses_the_spool(wheel, config, capsys):
    append_runtime(config, wheel.version, wheel.kind, wheel.path)
    checks_path(config).write_text(json.dumps({"1.13.0": {"path": wheel.path, "roofs": [ROOFS]}}))

    with lock_spool(config.parent / "spool"):
        runtime_check(config)

    assert "limits   not measured: another agent uses the spool" in capsys.readouterr().out
    assert read_checks(config)["1.13.0"]["roofs"] == [ROOFS]

    checks_path(config).unlink()
    with lock_spool(config.parent / "spool"):
        runtime_check(config, missing=True)
    assert "roofs" not in read_checks(config)["1.13.0"]
    capsys.readouterr()
    runtime_check(config, missing=True)
    assert read_checks(config)["1.13.0"]["roofs"] == []
    assert "models could not be created" in capsys.readouterr().out


@pytest.mark.alone
@pytest.mark.megengine
def test_the_peaks_of_a_real_wheel_are_plausible(megengine_python, config, capsys):
    append_runtime(config, "1.13.0", "wheel", megengine_python)

    assert runtime_check(config) == 0

    (roofs,) = read_checks(config)["1.13.0"]["roofs"]
    # a core of this century does 1 to 1,000 GFLOP/s in float32 and moves 0.1 to 1,000 GB/s
    assert 1e9 < roofs["peak_flops"]["Float32"] < 1e12
    assert 1e8 < roofs["copy_bytes_s"] < 1e12
    assert set(roofs["copies"]) == {str(16 * MIB), str(64 * MIB)}
    assert "limits   cpu: Float32" in capsys.readouterr().out
    entry = RuntimeEntry(version="1.13.0", kind="wheel", path=megengine_python)
    (peaks,) = take_inventory([entry], checks=read_checks(config))["1.13.0"].info.roofs
    assert peaks.peak_flops == roofs["peak_flops"]
