"""`make testdata`: rebuild test models and inputs, optionally also profiles and expected outputs.

    python -m testdata [--large | --expected | --profiles]

Without an option every model is made from its seed, together with its inputs, and run once. The
small ones are written into the repository, which does not change if neither the networks nor
MegEngine did; the large ones go to the user's cache. `--large` makes only those that the cache
lacks, which tests do by themselves.

`--expected` runs the original profile_analyze on the profiles of the repository and writes what it
does. `--profiles` records a new profile of each model and of a training step first. Times differ
with each recording: figures that tests name must be adapted to the new ones.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

from testdata import DATA, SOURCE, making, unpacked
from testdata.making import LARGE, SMALL, MakingError

#: profile whose command lines are used for new profiles without expected outputs
_EXAMPLES = {"profiles": "tiny", "bad/profiles": "layouts"}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make testdata",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_mutually_exclusive_group()
    for name in ("large", "expected", "profiles"):
        actions.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    python = making.find_python()
    if not python:
        print("There is no MegEngine: run make runtime.", file=sys.stderr)
        return 1
    try:
        if args.large:
            making.make_large(python)
        elif args.expected:
            write_expected(python)
        else:
            make_all(python, with_profiles=args.profiles)
    except MakingError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def make_all(python: str, *, with_profiles: bool) -> None:
    with tempfile.TemporaryDirectory(dir=DATA.parent, prefix="new-") as temporary:
        folder = Path(temporary)
        entries = making.make_models(python, (*LARGE, *SMALL), folder)
        for entry in entries:
            if entry["name"] in SMALL:
                model = (folder / entry["file"]).read_bytes()
                entry["sha256"] = hashlib.sha256(model).hexdigest()
                for file in (entry["file"], *(array["file"] for array in entry["inputs"])):
                    keep(file, (folder / file).read_bytes())
        keep("models/models.json", (json.dumps(entries, indent=1) + "\n").encode())
        if with_profiles:
            for entry in entries:
                keep(f"profiles/{entry['name']}.json", making.make_profile(python, entry, folder))
            making.make_models(python, ["train_mlp"], folder)
            keep("profiles/train_mlp.json", (folder / "profiles" / "train_mlp.json").read_bytes())
            write_expected(python)
        # `unpacked` names the folder after the new content of the repository
        making.keep_large(LARGE, folder, unpacked())


def write_expected(python: str) -> None:
    for kind, example in _EXAMPLES.items():
        for name in sorted({path.name.split(".")[0] for path in (SOURCE / kind).iterdir()}):
            before = making.read(f"expected/{kind}/{name}.json")
            before = before or making.read(f"expected/{kind}/{example}.json")
            arguments = [run["arguments"] for run in json.loads(before or b"[]")]
            profile = making.read(f"{kind}/{name}.json")
            assert profile is not None
            keep(f"expected/{kind}/{name}.json", making.analyzed(python, profile, arguments))


def keep(name: str, content: bytes) -> None:
    print(f"{name}: {'written' if making.write(name, content) else 'as before'}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
