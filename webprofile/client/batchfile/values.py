"""Read the values of one block of a batch file and collect mistakes.

It checks the values of the matrix and local files, and that the other values can be sent as JSON.
The site validates those (options, plan, seed ...).
"""

import glob
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from webprofile.client.batchfile import Mistakes

#: keys of a block with their descriptions in `submit --help`
KEYS = {
    "models": "a model file or a list of them; * matches names",
    "scripts": "instead of models: Python programs (.py or .zip); without options, plan and seed",
    "entry": 'for scripts in a .zip: path of the program, such as "train/main.py"',
    "arguments": "for scripts: command-line arguments, as for a shell or as a list",
    "formats": 'for scripts: "timeline", "memory" or a list of both; one run for each',
    "sample_rate": "for scripts: record the memory every N operators; 0 for never",
    "profile_device": "for scripts: false to omit the device times",
    "workers": 'device names, or requirements: {labels = {...}, pool = "...", versions = "..."}',
    "versions": 'MegEngine versions in quotes, or "all"; default: the newest of each device',
    "options": "a table: options of load_and_run for all tasks",
    "option_sets": "a table of tables: a task for each set of options, which overrides `options`",
    "option_preset": "name of one of your presets of options; `options` overrides its values",
    "option_files": "a table: option = file",
    "data": "a table: input variable = file; or a list of .json files, which contain the names "
    "of their variables; for scripts a list of any files, which are stored next to them",
    "inputs": 'a table: input variable = "numbers", or {shape = [...], dtype = "..."}',
    "plan": '"quick", "standard" (default), "thorough", or a table for a custom plan (see below)',
    "time_limit_s": "time limit of each task in seconds, for all passes or runs together; at most "
    "the site's limit",
    "repeats": "number of tasks for each combination; default: 1",
    "seed": "seed of random inputs",
    "title": "title; {model}, {worker}, {version}, {options} and {repeat} are replaced",
    "priority": "tasks with a higher priority run first among your own",
}
#: keys of a custom plan
PLAN_KEYS = {
    "clean": "true: latency passes (profiler off) run first",
    "clean_passes": "number of latency passes, 1 to 100; default: 1",
    "clean_min_s": "minimum duration of each in seconds, 0 to 60",
    "clean_min_iterations": "minimum number of iterations of each, 0 to 10000",
    "budget_s": "time limit in seconds for adding latency passes, 0 to 1800; default: 0",
    "half_width": "add them until the median's confidence interval is ± this ratio, 0.001 to 0.5; "
    "default: 0.01",
    "profiled": "number of profiled passes that follow, 0 to 50; default: 1",
}
#: recordings of a script by their names in batch files; the values are MegEngine's file formats
FORMATS = {"timeline": "chrome_timeline.json", "memory": "memory_flow.svg"}
MOST_REPEATS = 1000
_OF_SCRIPTS = ("entry", "arguments", "formats", "sample_rate", "profile_device")


def joined(place: str, key: str) -> str:
    return f"{place}.{key}" if place and key else place or key


class BlockReader:
    """Reader of one block.

    common, own, replaced: values from the top level, of the block and of arguments; later ones
        override earlier ones
    place: place of the block in the file, for messages
    folder: the folder of the file
    """

    def __init__(
        self,
        common: Mapping[str, Any],
        own: Mapping[str, Any],
        replaced: Mapping[str, Any],
        *,
        place: str,
        folder: Path,
        mistakes: Mistakes,
    ) -> None:
        self._values = {**common, **own, **replaced}
        self._own, self._replaced = own, replaced
        self._place, self._base = place, folder
        self._mistakes = mistakes

    def check_keys(self) -> None:
        for key in self._values:
            if key not in KEYS:
                known = ", ".join(KEYS)
                self._wrong(key, f"unknown key; the keys are {known}")

    def paths(self, key: str) -> tuple[Path, ...]:
        """Return the existing files of a key; those of a pattern are sorted by name."""
        paths: list[Path] = []
        for place, text in self._texts(key):
            paths += self._matching(key, place, text)
        if not paths and not self._values.get(key):
            self._wrong(key, "missing")
        return tuple(dict.fromkeys(paths))

    def script(self) -> dict[str, Any] | None:
        """Return the API field of the block's scripts; None for models."""
        fields = self.request_values(*_OF_SCRIPTS)
        if "scripts" not in self._values:
            for key in fields:
                self._wrong(key, "only valid for scripts")
            return None
        if "models" in self._values:
            self._wrong("scripts", "a block has either models or scripts")
        if "formats" in fields:
            fields["formats"] = [FORMATS.get(text, text) for _, text in self._texts("formats")]
        return fields | self.request_values("time_limit_s")

    def request_values(self, *keys: str) -> dict[str, Any]:
        """Return the values of keys that go into the request unchanged."""
        return self._plain("", {key: self._values[key] for key in keys if key in self._values})

    def names(self, key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for _, text in self._texts(key)))

    def devices(self) -> tuple[str | Mapping[str, Any], ...]:
        """Return the names of devices and the tables of requirements."""
        value = self._values.get("workers", [])
        values = value if isinstance(value, list) else [value]
        devices: list[str | Mapping[str, Any]] = []
        for number, device in enumerate(values):
            place = f"workers[{number}]" if isinstance(value, list) else "workers"
            if isinstance(device, dict):
                self._check_target(place, device)
            elif not isinstance(device, str) or not device:
                self._wrong(place, "expected a device name or a table of requirements")
            if device not in devices:
                devices.append(device)
        if not values:
            self._wrong("workers", "missing")
        return tuple(devices)

    def _check_target(self, place: str, target: Mapping[str, Any]) -> None:
        for key, value in target.items():
            if key == "labels":
                is_right = isinstance(value, dict) and all(
                    isinstance(label, str) for label in value.values()
                )
            else:
                is_right = key in {"pool", "versions"} and isinstance(value, str)
            if not is_right:
                self._wrong(
                    f"{place}.{key}", "expected labels (a table of strings), pool or versions"
                )

    def repeats(self) -> int:
        value = self._values.get("repeats", 1)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not 1 <= value <= MOST_REPEATS:
            self._wrong("repeats", f"expected an integer from 1 to {MOST_REPEATS}")
            return 1
        return int(value)

    def text(self, key: str) -> str:
        value = self._values.get(key, "")
        if not isinstance(value, str):
            self._wrong(key, "expected a string; write it in quotes")
            return ""
        return value

    def option_sets(self) -> dict[str, dict[str, Any]]:
        """Return the option sets, each merged with the common options, which it overrides."""
        common = self._table_of_plain("options", self._values.get("options", {}))
        sets = {
            name: common | self._table_of_plain(f"option_sets.{name}", own)
            for name, own in self._table("option_sets").items()
        }
        return sets or {"": common}

    def files(self) -> Iterator[tuple[str, Path, str]]:
        """Yield kind, path, and the variable or option of each file."""
        data = self._values.get("data", {})
        if isinstance(data, dict):
            for name, text in data.items():
                yield from self._file("data", f"data.{name}", text, name)
        else:
            for place, text in self._texts("data"):
                if text.lower().endswith(".json") or "scripts" in self._values:
                    yield from self._file("data", place, text, "")
                else:
                    self._wrong(
                        place,
                        "the input variable is missing: use --data VARIABLE=FILE, or VARIABLE = "
                        "FILE in the table [data]; only a .json file contains names of variables",
                    )
        for name, text in self._table("option_files").items():
            yield from self._file("option_files", f"option_files.{name}", text, name)

    def inputs(self) -> tuple[dict[str, Any], ...]:
        """Return the inputs for the API: name with literal, or with shape and dtype."""
        return tuple(self._input(name, value) for name, value in self._table("inputs").items())

    def plan(self) -> dict[str, Any]:
        plan = self._values.get("plan", {})
        if isinstance(plan, str):
            return {"preset": plan}
        return self._table_of_plain("plan", plan)

    def _input(self, name: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return {**self._plain(f"inputs.{name}.", value), "name": name}
        if isinstance(value, bool) or not _is_plain(value):
            self._wrong(f"inputs.{name}", "expected numbers in quotes, or shape and dtype")
            return {"name": name}
        return {"name": name, "literal": str(value)}

    def _file(self, kind: str, key: str, text: Any, use: str) -> Iterator[tuple[str, Path, str]]:
        if not isinstance(text, str):
            self._wrong(key, "expected a file")
            return
        path = self._folder(key.split(".")[0].split("[")[0]) / text
        if self._is_file(key, path):
            yield ("data" if kind == "data" else "option"), path, use

    def _matching(self, key: str, place: str, text: str) -> list[Path]:
        folder = self._folder(key)
        # unlike Path.exists, it returns False for a name that is too long
        if not glob.has_magic(text) or os.path.exists(folder / text):
            path = folder / text
            return [path] if self._is_file(place, path) else []
        matches = sorted(folder / name for name in glob.glob(text, root_dir=folder or None))
        matches = [path for path in matches if path.is_file()]
        if not matches:
            self._wrong(place, f"no file matches “{text}”")
        return [path for path in matches if self._is_file(place, path)]

    def _is_file(self, place: str, path: Path) -> bool:
        """Return whether a path is a readable regular file with a name in UTF-8."""
        try:
            path.name.encode()
            if not path.is_file() and path.exists() and not path.is_dir():
                self._wrong(place, f"{path}: not a file")
                return False
            with path.open("rb"):
                return True
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", "") or str(error)
            if isinstance(error, UnicodeEncodeError):
                why = "the file name is not valid UTF-8"
            self._wrong(place, f"{path}: {why}")
            return False

    def _texts(self, key: str) -> Iterator[tuple[str, str]]:
        """Yield (place, text) of each text; a single text is a list of one."""
        value = self._values.get(key, [])
        values = value if isinstance(value, list) else [value]
        for number, text in enumerate(values):
            place = f"{key}[{number}]" if isinstance(value, list) else key
            if isinstance(text, str) and text:
                yield place, text
            else:
                # YAML reads 1.10 as the number 1.1
                self._wrong(place, "expected a string; write it in quotes")

    def _table(self, key: str) -> dict[str, Any]:
        table = self._values.get(key, {})
        if isinstance(table, dict):
            return table
        self._wrong(key, "expected a table")
        return {}

    def _table_of_plain(self, key: str, table: Any) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._wrong(key, "expected a table: name = value")
            return {}
        return self._plain(f"{key}.", table)

    def _plain(self, place: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that JSON can represent; TOML also has dates, YAML sets and aliases."""
        plain = {}
        for name, value in table.items():
            values = value if isinstance(value, list) else [value]
            if all(map(_is_plain, values)):
                plain[name] = value
            else:
                self._wrong(f"{place}{name}", "expected true, false, a number or a string")
        return plain

    def _folder(self, key: str) -> Path:
        """Return the base of a key's paths: the working directory for those of arguments."""
        return Path() if key in self._replaced else self._base

    def _wrong(self, key: str, text: str) -> None:
        """Add a mistake at its place, in the block or at the top level."""
        root = key.split(".")[0].split("[")[0]
        self._mistakes.add(joined(self._place, key) if root in self._own else key, text)


def _is_plain(value: Any) -> bool:
    """Return whether a value can be sent as JSON; Python limits integers to 4,300 digits."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | str) or (isinstance(value, int) and abs(value) < 2**64)
