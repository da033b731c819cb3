"""Run a supervisor with small processes, for tests that stop it: `python -m ... HOME`."""

import asyncio
import os
import sys
from pathlib import Path

from webprofile.operations.devserver.layout import open_home
from webprofile.operations.devserver.lock import HomeInUseError, HomeLock
from webprofile.operations.devserver.site import until_end
from webprofile.operations.devserver.supervisor import Part, Supervisor

#: child processes in the same process group, in a new session, with SIGTERM ignored, and with an
#: empty environment; the parent exits 0.5 s after SIGTERM, as an agent takes some time
FAMILY = """
sleep 1000 &
setsid sleep 1000 &
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
env -i setsid sleep 1000 &
trap 'sleep 0.5; exit' TERM
while :; do wait; done
"""


async def main(home: Path) -> int:
    layout = open_home(home)
    try:
        lock = HomeLock(layout.lock)
    except HomeInUseError as error:
        print(error)
        return 3
    lock.announce("http://127.0.0.1:1")
    layout.make_folders()
    folder = home / "socket-folder"
    folder.mkdir()
    supervisor = Supervisor(layout, {**os.environ, "MGW_HOME": str(home)}, lock.descriptor)
    supervisor.open(folder, guard_grace_s=1)

    async def bring_up() -> int:
        await supervisor.start(Part("family", ["sh", "-c", FAMILY]))
        await supervisor.start(Part("single", ["sleep", "1000"]))
        print("up", flush=True)
        await asyncio.Event().wait()
        return 0

    try:
        return await until_end(supervisor, bring_up())
    finally:
        lock.release()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]))))
