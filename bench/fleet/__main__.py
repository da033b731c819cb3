"""How many devices one machine serves, and what each costs.

`python -m bench.fleet [--sizes 100,500,1000,2000] [--leave profile]` starts a site of its own:
PostgreSQL, Redis, storage, web, actors and sweep, as production runs them, and N simulated agents
on real sockets (`bench.fleet.agents`). At each size it measures joining, heartbeats alone, a burst
of tasks, and half of the burst's rate. Agents and users share the machine's cores with the site;
what they take is told apart. It is the control plane that is measured: attempts leave nothing. With
`--leave times` results are built too, with `--leave profile` also stored, uploaded and read. Always
left out: the download of the model and the run itself.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

from bench.fleet.plant import running_plant
from testdata import DATA

#: a socket is two open files here: one of the agent, one of the server
FILES_EACH, FILES_MORE = 1, 1_000


def main() -> None:
    wishes = _arguments()
    sizes = [int(size) for size in wishes.sizes.split(",")]
    raise_limit(max(sizes) * FILES_EACH + FILES_MORE)
    # the database then ends as it does otherwise
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["DJANGO_SETTINGS_MODULE"] = "webprofile.settings.dev"
    with (
        tempfile.TemporaryDirectory() as folder,
        running_plant(
            Path(folder),
            webs=wishes.webs,
            sockets=wishes.sockets,
            heartbeat_s=wishes.heartbeat_s,
        ) as plant,
    ):
        import django

        django.setup()
        from bench.fleet import measure
        from bench.fleet.report import report

        bench = measure.Bench(
            plant,
            measure.Wishes(
                sizes=sizes,
                leave=wishes.leave,
                file=str(DATA / "profiles/tiny.json"),
                idle_s=wishes.idle_s,
                tasks=wishes.tasks,
                together=wishes.together,
                connections=wishes.connections,
                half_s=wishes.half_s,
                processes=wishes.processes,
            ),
        )
        try:
            print(
                f"{measure.machine()}; web processes: {wishes.webs}, for sockets of agents: "
                f"{wishes.sockets or 'the same'}; attempts leave: {wishes.leave}; submitted "
                f"together: {wishes.together}; connections of users: {wishes.connections}; "
                f"heartbeat every {wishes.heartbeat_s:g} s",
                flush=True,
            )
            nobody, empty = bench.without_agents()
            results = []
            for result in bench.run():
                results.append(result)
                print(f"{result.connected:,} agents: {result.per_s:.1f} tasks/s", flush=True)
            text = report(nobody, empty, results)
        finally:
            bench.close()
        print("\n" + text)
        sys.exit(1 if "MISSED" in text else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a site with a fleet of agents.")
    parser.add_argument("--sizes", default="100,500,1000,2000", help="agents, ascending")
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
    """Allow this process and what it starts so many open files. Raises SystemExit if it may not."""
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
