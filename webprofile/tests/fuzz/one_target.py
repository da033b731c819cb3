"""Fuzz one target with libFuzzer, which needs a process for each.

`python -m webprofile.tests.fuzz.one_target TARGET FINDINGS [-max_total_time=S] [-seed=N] CORPUS`
An unexpected exception is written to the folder FINDINGS, once for each location, and fuzzing
continues. An input that takes too long or too much memory ends the process; libFuzzer stores it.
"""

import hashlib
import json
import os
import random
import resource
import sys
import traceback
from pathlib import Path

import atheris
import django

from webprofile.tests.fuzz.json_changes import change, nested

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.test")
with atheris.instrument_imports(
    include=[
        "agent",
        "profiles",
        "tasks.submission",
        "webprofile.client.batchfile",
        "yaml",
        "tomllib",
    ]
):
    django.setup()  # imports some of these packages
    from webprofile.tests.fuzz.targets import TARGETS

MEMORY_LIMIT_BYTES = 4 << 30


def main() -> None:
    name, findings, *options = sys.argv[1:]
    target = TARGETS[name]
    folder = Path(findings)
    folder.mkdir(parents=True, exist_ok=True)
    # beyond this limit Python raises MemoryError, which is a finding with a location
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))

    def feed(data: bytes) -> None:
        try:
            target.feed(data)
        except Exception as error:
            _store(folder, name, data, error)

    more = {"custom_mutator": _change_json} if target.is_json else {}
    atheris.Setup([sys.argv[0], *options], feed, **more)
    atheris.Fuzz()


def _change_json(data: bytes, max_bytes: int, seed: int) -> bytes:
    chance = random.Random(seed)
    kind = chance.randrange(20)
    if kind == 0:
        return nested(chance.randint(10, max_bytes // 16), chance).encode()[:max_bytes]
    if kind > 4:
        try:
            json_text = json.dumps(change(json.loads(data), chance), ensure_ascii=kind % 2 == 0)
            changed = json_text.encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError, IndexError, OverflowError):
            changed = b""
        if 0 < len(changed) <= max_bytes:
            return changed
    return bytes(atheris.Mutate(data, max_bytes))


def _store(folder: Path, name: str, data: bytes, error: Exception) -> None:
    """Store input and traceback, once for each type of error and location."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{type(error).__name__} {Path(last.filename).name}:{last.lineno}"
    mark = hashlib.sha256(place.encode()).hexdigest()[:12]
    if (folder / f"{name}-{mark}").exists():
        return
    (folder / f"{name}-{mark}").write_bytes(data)
    text = "".join(traceback.format_exception(error, limit=-12))
    (folder / f"{name}-{mark}.txt").write_text(text, errors="replace")
    print(f"FINDING {name} {place}", flush=True)


if __name__ == "__main__":
    main()
