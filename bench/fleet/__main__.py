"""Measure how many devices one machine can serve, and what each costs.

`python -m bench.fleet [--sizes 100,500,1000,2000] [--leave profile]` starts a site as in production
(PostgreSQL, Redis, storage, web, dispatch, actors, sweep) and N simulated agents with real sockets
(`bench.fleet.agents`). At each size it measures how long the agents take to connect, the cost of
heartbeats alone, the throughput of a burst of tasks, and start latencies at half of that rate.
Simulated agents and users share the cores with the site; their CPU time is listed separately.

By default attempts leave no files, so that only the control plane is measured. With `--leave times`
the server also builds results, with `--leave profile` it also stores and reads a profile. Download
of the model and execution are never part of it.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

from bench.fleet.bench_site import running_bench_site

#: a socket is two open files here: one of the agent, one of the server
FILES_EACH, FILES_MORE = 1, 1_000


def main() -> None:
    options = _arguments()
    raise_limit(max(options.sizes) * FILES_EACH + FILES_MORE)
    # exit through the context managers, which stop the database
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webprofile.settings.dev"
    with (
        tempfile.TemporaryDirectory() as folder,
        running_bench_site(
            Path(folder),
            webs=options.webs,
            sockets=options.sockets,
            heartbeat_s=options.heartbeat_s,
        ) as bench_site,
    ):
        import django

        django.setup()
        from bench.fleet import measure
        from bench.fleet.report import report

        bench = measure.FleetBenchmark(bench_site, options)
        try:
            print(
                f"{measure.machine()}; web processes: {options.webs}, for sockets of agents: "
                f"{options.sockets or 'the same'}; attempts leave: {options.leave}; submitted "
                f"together: {options.together}; connections of users: {options.connections}; "
                f"heartbeat every {options.heartbeat_s:g} s",
                flush=True,
            )
            idle, memory = bench.without_agents()
            results = []
            for result in bench.run():
                results.append(result)
                print(f"{result.connected:,} agents: {result.per_s:.1f} tasks/s", flush=True)
            text = report(idle, memory, results)
        finally:
            bench.close()
        print("\n" + text)
        sys.exit(1 if "MISSED" in text else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a site with a fleet of agents.")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default="100,500,1000,2000",
        help="agents, ascending",
    )
    parser.add_argument("--leave", choices=("profile", "times", "nothing"), default="nothing")
    parser.add_argument("--webs", type=int, default=2, help="web processes")
    parser.add_argument("--sockets", type=int, default=1, help="web processes for agents' sockets")
    parser.add_argument("--processes", type=int, default=2, help="of simulated agents")
    parser.add_argument("--heartbeat-s", type=float, default=5.0)
    parser.add_argument("--idle-s", type=float, default=15.0, help="of heartbeats alone")
    parser.add_argument("--tasks", type=int, default=500, help="of a burst")
    parser.add_argument("--together", type=int, default=1, help="tasks submitted by a request")
    parser.add_argument("--connections", type=int, default=16, help="users who wait for answers")
    parser.add_argument("--half-s", type=float, default=15.0, help="at half of the burst's rate")
    return parser.parse_args()


def raise_limit(needed: int) -> None:
    """Raise the limit of open files of this process and its children. Raises SystemExit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))
    except (ValueError, OSError) as error:
        raise SystemExit(
            f"{needed} open files are needed and {hard} are the most allowed here: "
            f"raise it (`ulimit -n {needed}` as root), or ask for fewer agents"
        ) from error


if __name__ == "__main__":
    main()
