"""Try whether runs are judged rightly: which count as disturbed, and which verdicts they give.

`python -m bench.bench_disturbed [--runs 10] [--home FOLDER] [--only calm,page,busy,burst]` starts a
site with its default settings, waits until the device has measured its scatter, and runs two models
with the plan "standard" under four conditions in turn: nothing else runs; the task's page is open
in Chromium on this machine; one thread is busy during the whole run; one is busy for a second in
the middle. Then it compares runs of the first condition through `webprofile compare --fail-above
5`: pairs of one model, and pairs of a model with one that has about 20 % more blocks.

`--only burst,limit,clock,memory` plants four disturbances in the middle of runs, as root: a busy
thread; a CPU limit of a tenth of a core (cgroup v1); a clock that falls by 40 % (files replace
those of /sys, as virtual machines have none); and memory of which only 150 MiB are available.

Results are appended to FOLDER/trials.jsonl; with the same --home, a stopped trial goes on.
"""

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from tabulate import tabulate

from agent.conftest import find_megengine_python
from bench.bench_idle import additions_s
from bench.browser import chromium, log_in
from bench.site import wait_for_end
from webprofile.client.api import Api
from webprofile.client.login_file import Login
from webprofile.operations.devserver.demo import OPTIONS, Visitor
from webprofile.operations.devserver.layout import Layout
from webprofile.tests.end_to_end.runs import submit
from webprofile.tests.site import ROOT, EmbeddedSite, running_site

PLAN = {"preset": "standard"}
#: blocks of the two models, and of each with 20 % more work
MODELS = {"small": 10, "large": 15}
SLOWER = {"small": 12, "large": 18}
#: condition -> (whether a run should count as undisturbed, share of runs for which that must hold)
CONDITIONS = {
    "calm": (True, 0.95),
    "page": (True, 0.9),
    "busy": (False, 0.95),
    "burst": (False, 0.9),
    "limit": (False, 0.95),
    "clock": (False, 0.95),
    "memory": (False, 0.95),
}
USUAL = ("calm", "page", "busy", "burst")
BURST_S = 1.0
#: duration of the other planted disturbances
PLANTED_S = 2.0
#: a process that is in its mount namespace has this variable
_OWN_MOUNTS = "BENCH_OWN_MOUNTS"
_CPUS = Path("/sys/devices/system/cpu")
_CLOCKS_KHZ = (3_000_000, 1_800_000)
_GROUP = Path("/sys/fs/cgroup/cpu/bench-disturbed")
#: the site still works after it has read a profile, as it does for a user who submits two tasks
SETTLE_S = 2.0
SCATTER_WITHIN_S = 600.0
#: runs of the sample model that show the scatter of equal runs
RUNS = 5
_SCATTER_RUNS = "SELECT samples FROM workers_healthcheck WHERE cause = 'scatter' AND result <> ''"
_PASSES_DONE = "SELECT passes_done FROM tasks_attempt WHERE task_id = ?"
#: leaves 1 GiB available, then 150 MiB for a while; the kernel ends it first if that is too little
_HOG = """
import mmap, psutil, sys, time
flags, blocks = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE, []
def fill(least):
    while (room := psutil.virtual_memory().available - least) > 8 << 20:
        blocks.append(mmap.mmap(-1, min(room, 256 << 20), flags=flags))
open("/proc/self/oom_score_adj", "w").write("1000")
fill(1 << 30)
print("ready", flush=True)
sys.stdin.readline()
fill(150 << 20)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    fill(150 << 20)
    time.sleep(0.05)
"""
_SPIN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="of each model and condition")
    parser.add_argument("--pairs", type=int, default=20, help="of each kind")
    parser.add_argument("--home", type=Path, help="folder of the site and of trials.jsonl")
    parser.add_argument("--only", default=",".join(USUAL), help=f"of {', '.join(CONDITIONS)}")
    args = parser.parse_args()
    if "clock" in args.only and _OWN_MOUNTS not in os.environ:
        command = [sys.executable, "-m", "bench.bench_disturbed", *sys.argv[1:]]
        os.execvpe("unshare", ["unshare", "-m", *command], os.environ | {_OWN_MOUNTS: "1"})
    print(f"machine: ten million additions take {additions_s():.2f} s")
    with contextlib.ExitStack() as stack:
        home = args.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home.mkdir(parents=True, exist_ok=True)
        if "clock" in args.only:
            replace_clocks(home / "cpu")
        if "limit" in args.only:
            stack.enter_context(control_group())
        models = make_models(home)
        site = stack.enter_context(running_site(home / "site", SCATTER_RUNS=str(RUNS)))
        visitor = stack.enter_context(site.login())
        visitor.device()  # waits until it is online
        wait_for_scatter(site)
        trials = Trials(home / "trials.jsonl", visitor, models)
        conditions = args.only.split(",")
        most = dict.fromkeys(conditions, args.runs)
        if args.pairs:
            # half of the pairs are of each model, and an equal pair needs two runs of it
            most |= {"calm": max(args.runs, args.pairs), "slower": args.pairs // 2}
        for _ in range(max(most.values())):
            for condition, runs in most.items():
                for name in MODELS:
                    trials.once(condition, name, site, most=runs)
        print(report(trials.rows))
        if args.pairs:
            print(verdicts(trials.rows, site, args.pairs))


def make_models(home: Path) -> dict[tuple[str, bool], Path]:
    """Return {(name, whether it is the slower one): model file}."""
    made = {}
    for is_slower, blocks in ((False, MODELS), (True, SLOWER)):
        for name, number in blocks.items():
            # equal contents would be equal runs
            path = made[name, is_slower] = home / f"{name}{'-slower' * is_slower}.mge"
            if not path.exists():
                script = str(ROOT / "examples" / "make_sample.py")
                command = [find_megengine_python(), script, str(path), f"--blocks={number}"]
                subprocess.run(command, check=True, capture_output=True)
    return made


def wait_for_scatter(site: EmbeddedSite) -> None:
    """Wait until the device has run the sample model often enough."""
    begin = time.monotonic()
    # a query by manage.py would take two seconds of CPU time and disturb the runs
    database = sqlite3.connect(f"file:{Layout(site.home).database}?mode=ro", uri=True)
    with contextlib.closing(database):
        while (took_s := time.monotonic() - begin) < SCATTER_WITHIN_S:
            samples = [row[0] for row in database.execute(_SCATTER_RUNS)]
            calm = sum(text != "{}" for text in samples)
            if calm >= RUNS:
                text = f"scatter: {calm} undisturbed of {len(samples)} runs after {took_s:.0f} s"
                print(text, flush=True)
                return
            time.sleep(2)
    print("scatter: not known", flush=True)


class Trials:
    """The runs so far, one row each, which are also in `file`."""

    def __init__(self, file: Path, visitor: Visitor, models: dict[tuple[str, bool], Path]) -> None:
        self._file, self._visitor, self._models = file, visitor, models
        self.rows = (
            [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        )

    def once(self, condition: str, name: str, site: EmbeddedSite, *, most: int) -> None:
        """Run a model under a condition, unless there are `most` such runs."""
        done = [row for row in self.rows if (row["condition"], row["model"]) == (condition, name)]
        if len(done) >= most:
            return
        model = self._models[name, condition == "slower"]
        time.sleep(SETTLE_S)
        files = {model: {"kind": "model"}}
        stolen_s = psutil.cpu_times().steal
        begin_s = time.monotonic()
        with under(
            condition, site, lambda: submit(self._visitor, files, options=OPTIONS, plan=PLAN)
        ) as task:
            wait_for_end(self._visitor, task)
        stolen = (psutil.cpu_times().steal - stolen_s) / (time.monotonic() - begin_s)
        row = self._row(condition, name, task) | {"stolen_percent": round(100 * stolen, 1)}
        self.rows.append(row)
        with self._file.open("a") as file:
            file.write(json.dumps(row) + "\n")
        state = ", ".join(row["disturbed_by"]) or "undisturbed"
        print(
            f"{condition} {name}: {row['median_ms']:.2f} ms, total {row['total_ms']:.2f} ms, "
            f"{row['used']} of {row['passes']} passes, waited {row['waited_percent']}, "
            f"steal {row['stolen_percent']} %, {state}",
            flush=True,
        )

    def _row(self, condition: str, name: str, task: int) -> dict[str, Any]:
        measured = json.loads(self._visitor.artifact(task, "measurement.json"))
        (profile,) = self._visitor.get(f"/api/v1/profiles/?task={task}").json()["results"]
        latency = self._visitor.get(f"/api/v1/profiles/{profile['id']}/statistics/").json()[
            "latency"
        ]
        kept = [row for row in latency["passes"] if row["kept"]]
        timed = [row for row in measured["passes"] if row["kept"] and row["watched_ms"]]
        return {
            "condition": condition,
            "model": name,
            "task": task,
            "median_ms": latency["median_ms"],
            "total_ms": 1000 * profile["device_total_s"],
            "passes": len(kept),
            "used": sum(row["used"] for row in kept),
            "waited_percent": [round(100 * r["waited_ms"] / r["watched_ms"], 1) for r in timed],
            "disturbed_by": [item["code"] for item in latency["disturbances"]],
            "load": measured["other_load"],
        }


@contextlib.contextmanager
def under(condition: str, site: EmbeddedSite, start: Callable[[], int]) -> Iterator[int]:
    """Start a run under a condition, which holds until the block ends; yield its task."""
    with contextlib.ExitStack() as stack:
        if condition == "busy":
            spinning = subprocess.Popen([sys.executable, "-c", _SPIN.format(seconds=3600)])
            stack.callback(spinning.wait)
            stack.callback(spinning.kill)
        if condition == "page":
            browser = stack.enter_context(chromium())
            log_in(browser, site.address, site.account)
            time.sleep(SETTLE_S)
        plant = PLANTED.get(condition)
        if condition == "memory":
            command = [sys.executable, "-c", _HOG.format(seconds=PLANTED_S)]
            hog = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.callback(hog.wait)
            stack.callback(hog.kill)
            assert hog.stdout and hog.stdout.readline()
            plant = hog.communicate
        task = start()
        if condition == "page":
            browser.get(f"{site.address}/tasks/{task}/")
        if plant:
            thread = threading.Thread(target=lambda: _plant(site, task, plant))
            thread.start()
            stack.callback(thread.join)
        yield task


def _plant(site: EmbeddedSite, task: int, plant: Callable[[], object]) -> None:
    """Plant a disturbance when the first pass of the task has ended."""
    database = sqlite3.connect(f"file:{Layout(site.home).database}?mode=ro", uri=True)
    with contextlib.closing(database):
        while not any(database.execute(_PASSES_DONE, (task,)).fetchone() or (0,)):
            time.sleep(0.05)
    plant()


def _burst() -> None:
    subprocess.run([sys.executable, "-c", _SPIN.format(seconds=BURST_S)], check=True)


def _limit() -> None:
    quota = _GROUP / "cpu.cfs_quota_us"
    quota.write_text("10000")
    time.sleep(PLANTED_S)
    quota.write_text("-1")


def _drop_clock() -> None:
    for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        path.write_text(f"{_CLOCKS_KHZ[1]}\n")
    time.sleep(PLANTED_S)
    for path in _CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
        path.write_text(f"{_CLOCKS_KHZ[0]}\n")


#: condition -> function that disturbs the machine for a while
PLANTED: dict[str, Callable[[], object]] = {
    "burst": _burst,
    "limit": _limit,
    "clock": _drop_clock,
}


@contextlib.contextmanager
def control_group() -> Iterator[None]:
    """Move this process, and thus the site that it starts, to a control group (cgroup v1)."""
    _GROUP.mkdir(exist_ok=True)
    (_GROUP / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (_GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))


def replace_clocks(folder: Path) -> None:
    """Show files with clocks in place of the kernel's to this process and its descendants."""
    shutil.rmtree(folder, ignore_errors=True)
    # some files of the kernel cannot be read
    with contextlib.suppress(shutil.Error):
        shutil.copytree(_CPUS, folder, symlinks=True)
    for core in folder.glob("cpu[0-9]*"):
        clock = core / "cpufreq"
        clock.mkdir()
        for name in ("scaling_cur_freq", "scaling_max_freq", "scaling_min_freq"):
            (clock / name).write_text(f"{_CLOCKS_KHZ[0]}\n")
    subprocess.run(["mount", "--bind", str(folder), str(_CPUS)], check=True)


def report(rows: list[dict[str, Any]]) -> str:
    """Return a table of the conditions: how many runs were judged as they should be."""
    table = []
    for condition, (should_be_calm, share) in CONDITIONS.items():
        runs = [row for row in rows if row["condition"] == condition]
        if not runs:
            continue
        whole = [row for row in runs if not row["disturbed_by"] and row["used"] == row["passes"]]
        partly = [row for row in runs if not row["disturbed_by"] and row["used"] < row["passes"]]
        calm = len(whole) + len(partly)
        right = calm if should_be_calm else len(runs) - len(whole)
        is_met = right >= share * len(runs)
        table.append(
            (
                condition,
                len(runs),
                len(whole),
                len(partly),
                len(runs) - calm,
                "met" if is_met else "MISSED",
            )
        )
    headers = ("condition", "runs", "undisturbed", "passes left out", "disturbed", "goal")
    return tabulate(table, headers=headers)


def verdicts(rows: list[dict[str, Any]], site: EmbeddedSite, pairs: int) -> str:
    """Return the exit codes of `webprofile compare A B --fail-above 5` for pairs of runs."""
    calm = {
        (name, slow): [
            row["task"]
            for row in rows
            if row["model"] == name
            and row["condition"] == ("slower" if slow else "calm")
            and not row["disturbed_by"]
        ]
        for name in MODELS
        for slow in (False, True)
    }
    environment = login_of(site)
    table = []
    for kind in ("equal", "slower"):
        codes, words = Counter[int](), Counter[str]()
        candidates = []
        for name in MODELS:
            base = calm[name, False]
            if kind == "equal":
                candidates += list(zip(base[::2], base[1::2], strict=False))
            else:
                candidates += list(zip(base, calm[name, True], strict=False))
        for one, other in candidates[:pairs]:
            code, word = gate(environment, one, other)
            codes[code] += 1
            words[word] += 1
        table.append((kind, sum(codes.values()), dict(words), dict(codes)))
    return tabulate(table, headers=("pairs", "number", "verdicts", "exit codes"))


def gate(environment: dict[str, str], one: int, other: int) -> tuple[int, str]:
    """Compare two tasks with the client; return its exit code and the verdict."""
    command = [sys.executable, "-m", "webprofile.client", "compare", str(one), str(other), "--json"]
    done = subprocess.run(
        [*command, "--fail-above", "5"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    if done.returncode not in (0, 1, 5):
        raise SystemExit(done.stderr)
    return done.returncode, json.loads(done.stdout)["gate"]["others"][0]["verdict"]


def login_of(site: EmbeddedSite) -> dict[str, str]:
    """Return environment variables by which the client logs in."""
    credentials = {name: site.account[name] for name in ("email", "password")}
    with Api(Login(site.address, "")) as api:
        pair = api.post("auth/token/", credentials)
    with Api(Login(site.address, pair["access"])) as api:
        token = api.post("access-tokens/", {"name": "bench", "scopes": ["read"], "days": 1})
    return {**os.environ, "WEBPROFILE_SITE": site.address, "WEBPROFILE_TOKEN": token["secret"]}


if __name__ == "__main__":
    main()
