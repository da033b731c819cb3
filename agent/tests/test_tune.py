"""`agent tune`, and what `agent doctor` says of the kernel's settings, on a machine of files."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.device.cores import format_cores, parse_cores
from agent.device.settings import Machine, read_settings
from agent.execution.report import describe_settings
from agent.tune import RECORD_NAME, TuneError, describe_tuning, read_tuning, tune

CPU = "sys/devices/system/cpu"
SMT, NO_TURBO = f"{CPU}/smt/control", f"{CPU}/intel_pstate/no_turbo"
ASLR = "proc/sys/kernel/randomize_va_space"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"
IRQ, LOCAL_IRQ = "proc/irq/24/smp_affinity_list", "proc/irq/25/smp_affinity_list"
BOOT = "proc/sys/kernel/random/boot_id"
#: a machine of four cores with two threads each; runs use the cores 0 to 6, the agent core 7
UNTUNED = {
    BOOT: "first",
    "proc/self/cgroup": "0::/user.slice/agent.service",
    f"{CPU}/online": "0-7",
    f"{CPU}/isolated": "",
    SMT: "on",
    **{f"{CPU}/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}" for n in range(8)},
    **{f"{CPU}/cpu{n}/cpufreq/scaling_governor": "powersave" for n in range(8)},
    **{
        f"{CPU}/cpu{n}/cpufreq/scaling_available_governors": "performance powersave" for n in (0, 1)
    },
    NO_TURBO: "0",
    ASLR: "0",
    HUGE_PAGES: "[always] madvise never",
    IRQ: "0-7",
    "proc/irq/24/nvme0/spurious": "",
    LOCAL_IRQ: "7",
    "proc/irq/25/timer/spurious": "",
    "proc/irq/26/smp_affinity_list": "0-7",  # not in use
}


class FakeMachine:
    """Files like those of the kernel; `tune` runs against them."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.root, self.spool = folder / "root", folder / "spool"
        self.config = folder / "agent.toml"
        self.config.write_text('server = "http://site"\ntoken = "t"\nspool = "spool"\n')
        self.spool.mkdir()
        self.machine = Machine(self.root, available=frozenset(range(8)))
        for path, text in files.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text + "\n")

    def tune(self, *, restore: bool = False) -> int:
        return tune(self.config, restore=restore, machine=self.machine)

    def contents(self) -> dict[str, str]:
        """Return all files as the kernel would show them after the writes."""
        paths = (path for path in self.root.rglob("*") if path.is_file())
        return {
            name: self.machine.read(name) for name in (str(p.relative_to(self.root)) for p in paths)
        }

    def levels(self) -> dict[str, str]:
        return {setting.name: setting.level for setting in read_settings(self.machine)}


@pytest.fixture
def untuned(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path, UNTUNED)


def test_each_setting_is_judged_with_its_value_reason_and_next_step(untuned):
    texts = {setting.name: setting.text for setting in read_settings(untuned.machine)}
    assert untuned.levels() == {
        name: "unfavourable" for name in ("smt", "governor", "turbo", "aslr", "thp", "irq")
    } | {"quota": "ok", "cpuset": "ok"}
    assert texts["governor"].startswith("powersave: the clock follows the load")
    assert texts["irq"].startswith("1 of 2 on cores of runs: ")
    assert texts["turbo"].endswith("`agent tune` sets it")


def test_settings_that_cannot_be_read_are_unknown(tmp_path):
    machine = FakeMachine(tmp_path, {}).machine
    assert {setting.level for setting in read_settings(machine)} == {"unknown"}
    assert all(setting.text for setting in read_settings(machine))


def test_a_cpuset_hurts_if_the_agent_then_shares_cores_with_runs(untuned):
    few = Machine(untuned.root, available=frozenset({0, 1}))
    cpuset = read_settings(few)[-1]
    assert (cpuset.level, cpuset.value) == ("unfavourable", "0-1 of 0-7")
    untuned.write(f"{CPU}/isolated", "2-3")
    cpuset = read_settings(untuned.machine)[-1]
    assert cpuset.level == "unfavourable"
    assert "isolated cores 2-3" in cpuset.text


@pytest.mark.parametrize(
    ("group", "files", "value"),
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, "1.5 cores"),
        ("0::/path/on/the/host", {"cpu.max": "400000 100000"}, "4 cores"),
        ("3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "50000"}, "0.5 cores"),
        ("0::/a", {"a/cpu.max": "800000 100000"}, "none"),
        ("3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1"}, "none"),
    ],
    ids=["a group above", "a container", "cgroup v1", "as many as cores", "v1 without a limit"],
)
def test_a_cpu_limit_below_the_number_of_cores_hurts(untuned, group, files, value):
    untuned.write("proc/self/cgroup", group)
    for name, text in files.items():
        untuned.write(f"sys/fs/cgroup/{name}", text)
    untuned.write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000")
    quota = read_settings(untuned.machine)[-2]
    assert (quota.name, quota.value) == ("quota", value)
    assert quota.level == ("ok" if value == "none" else "unfavourable")


def test_tune_sets_what_hurts_and_restore_brings_all_of_it_back(untuned, capsys):
    before = untuned.contents()
    assert untuned.tune() == 0
    out = capsys.readouterr().out
    assert set(untuned.levels().values()) == {"ok"}
    assert "set           governor  performance: " in out
    assert "agent tune --restore --config" in out
    after = untuned.contents()
    assert (after[SMT], after[NO_TURBO], after[ASLR], after[HUGE_PAGES], after[IRQ]) == (
        ("off", "1", "2", "madvise", "7")
    )
    assert after[LOCAL_IRQ] == "7"
    assert after["proc/irq/26/smp_affinity_list"] == "0-7"
    assert untuned.tune(restore=True) == 0
    assert "restored /sys/kernel/mm/transparent_hugepage/enabled: madvise -> always" in (
        capsys.readouterr().out
    )
    assert untuned.contents() == before
    assert os.listdir(untuned.spool) == []
    assert untuned.tune(restore=True) == 0
    assert "Nothing to restore" in capsys.readouterr().out


def test_tuning_and_restoring_say_that_the_cores_have_changed(untuned, capsys):
    untuned.tune()
    assert "Restart the agent: its cores have changed." in capsys.readouterr().out
    untuned.tune(restore=True)
    assert "Restart the agent: its cores have changed." in capsys.readouterr().out


def test_tuning_twice_keeps_the_first_values(untuned):
    before = untuned.contents()
    untuned.tune()
    untuned.write(f"{CPU}/cpu3/cpufreq/scaling_governor", "schedutil")
    assert untuned.tune() == 0
    assert untuned.levels()["governor"] == "ok"
    untuned.tune(restore=True)
    assert untuned.contents() == before


def test_interrupts_move_off_the_cores_that_runs_have_without_smt(untuned):
    # the kernel takes the second threads off; here the test does it before
    untuned.write(f"{CPU}/online", "0-3")
    untuned.tune()
    assert untuned.contents()[IRQ] == "3"


def test_smt_stays_on_if_runs_are_configured_to_use_second_threads(untuned):
    untuned.config.write_text(untuned.config.read_text() + "[measure]\ncores = [0, 5]\n")
    machine = Machine(untuned.root, (0, 5), frozenset(range(8)))
    assert tune(untuned.config, machine=machine) == 0
    assert untuned.contents()[SMT] == "on"
    assert "second threads 5" in read_settings(machine)[0].text


@pytest.mark.exhaustive
@pytest.mark.parametrize("restore", [False, True])
def test_killed_at_any_step_everything_can_be_restored(tmp_path, restore):
    """Children of one process, which loads the agent once, are killed at their n-th step."""
    program = f"from agent.tests.test_tune import kill_at_each_step as f; f({restore})"
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout.split()[-1]) > 10


def kill_at_each_step(restore: bool) -> None:
    """Kill `tune` at its n-th file operation, for each n until it ends; print the number."""
    for step in range(200):
        folder = Path(sys.argv[1]) / str(step)
        folder.mkdir()
        fake = FakeMachine(folder, UNTUNED)
        before = fake.contents()
        if restore:
            fake.tune()
        child = os.fork()
        if child == 0:
            kill_after(step)
            os._exit(fake.tune(restore=restore))
        _, status = os.waitpid(child, 0)
        if status == 0:
            break
        assert os.WIFSIGNALED(status), f"step {step}: {status}"
        assert fake.tune(restore=True) == 0
        assert fake.contents() == before, f"killed at step {step}"
    print(step)


def kill_after(steps: int) -> None:
    """Kill this process before it writes, renames or removes a file for the n-th time."""
    left = steps

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        flags = arguments[2] if event == "open" else 0
        is_write = isinstance(flags, int) and bool(flags & os.O_ACCMODE)
        if is_write or event in ("os.rename", "os.remove"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def test_what_may_not_be_set_is_told_and_the_rest_is_set(untuned, capsys):
    (untuned.root / IRQ).unlink()
    # this file of the kernel is read-only
    (untuned.root / IRQ).symlink_to("/sys/devices/system/cpu/online")
    before = untuned.contents()
    assert untuned.tune() == 1
    printed = capsys.readouterr()
    assert "failed        irq " in printed.out
    assert "run it as root, and not in a container" in printed.err
    assert untuned.levels()["governor"] == "ok"
    assert untuned.tune(restore=True) == 0
    assert untuned.contents() == before


def test_after_a_reboot_nothing_is_restored_and_the_agent_says_so(untuned, capsys):
    untuned.tune()
    untuned.write(BOOT, "second")
    untuned.write(NO_TURBO, "1")
    assert "a reboot has reset" in describe_tuning(untuned.spool, untuned.machine)
    assert untuned.tune(restore=True) == 0
    assert "a reboot has reset the settings" in capsys.readouterr().out
    assert untuned.contents()[NO_TURBO] == "1"
    assert describe_tuning(untuned.spool, untuned.machine) == ""


def test_tuning_after_a_reboot_starts_from_the_new_values(untuned):
    untuned.tune()
    for path, text in UNTUNED.items():
        untuned.write(path, text)
    untuned.write(BOOT, "second")
    untuned.write(ASLR, "1")
    untuned.tune()
    untuned.tune(restore=True)
    assert untuned.contents()[ASLR] == "1"


@pytest.mark.parametrize(
    "former",
    [{"etc/passwd": "root"}, {f"{CPU}/../../../../etc/passwd": "root"}, {ASLR: "2\nx"}, []],
)
def test_a_record_that_names_other_files_is_refused(untuned, capsys, former):
    (untuned.spool / RECORD_NAME).write_text(json.dumps({"boot": "first", "former": former}))
    before = untuned.contents()
    assert untuned.tune(restore=True) == 1
    assert untuned.tune() == 1
    assert "`agent tune` did not write it" in capsys.readouterr().err
    assert untuned.contents() == before
    with pytest.raises(TuneError):
        read_tuning(untuned.spool)


def test_a_link_in_place_of_the_record_is_not_followed(untuned, tmp_path):
    (tmp_path / "elsewhere").write_text("{}")
    (untuned.spool / RECORD_NAME).symlink_to(tmp_path / "elsewhere")
    assert untuned.tune() == 1
    (untuned.spool / RECORD_NAME).unlink()
    (untuned.spool / f"{RECORD_NAME}.new").symlink_to(tmp_path / "elsewhere")
    assert untuned.tune() == 0
    assert (tmp_path / "elsewhere").read_text() == "{}"


def test_without_a_spool_tune_says_to_start_the_agent_first(untuned, capsys):
    untuned.spool.rmdir()
    assert untuned.tune() == 1
    assert "start the agent once first" in capsys.readouterr().err


def test_the_manifest_has_the_settings_and_their_values_before_tuning(untuned):
    untuned.tune()
    records = describe_settings(untuned.machine, untuned.spool)
    by_name = {record.name: (record.value, record.former) for record in records}
    assert by_name["governor"] == ("performance", "powersave")
    assert by_name["thp"] == ("madvise", "always")
    assert by_name["cpuset"] == ("0-7 of 0-7", "")
    untuned.write(BOOT, "second")
    assert {record.former for record in describe_settings(untuned.machine, untuned.spool)} == {""}


def test_lists_of_cores_are_read_and_written_as_the_kernel_does():
    assert parse_cores("0-2,7") == {0, 1, 2, 7}
    assert parse_cores("") == parse_cores("all") == frozenset()
    assert format_cores(frozenset({0, 1, 2, 5, 7, 8})) == "0-2,5,7-8"
