"""Fake interpreters, pip and load_and_run: shell scripts without network."""

import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

MakeScript = Callable[[Path, str], Path]
MakePython = Callable[[Path, int], Path]


@pytest.fixture
def make_script() -> MakeScript:
    """Write an executable shell script."""

    def make(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def make_python(make_script: MakeScript) -> MakePython:
    """Make a fake Python 3.<minor> that answers the probe, makes environments, and has a fake pip.

    Files beside it: calls of pip are appended to `calls.txt`, and its requirements are copied. If
    `fail-pip` exists, pip fails and prints its content; `no-wheel` does the same for
    MegEngine without a checksum only. `version` is the version of MegEngine that pip installs.
    """

    def make(path: Path, minor: int) -> Path:
        base, quoted = path.parent, shlex.quote(str(path))
        inner = (
            f'case "$*" in *pip*) echo "pip $*" >> {base}/calls.txt; '
            f'[ "$7" = -r ] && cat "$8" >> {base}/requirements.txt; '
            f"if [ -e {base}/fail-pip ]; then cat {base}/fail-pip; exit 1; fi; "
            f'if [ "$5" = --no-deps ] && [ -e {base}/no-wheel ]; '
            f"then cat {base}/no-wheel; exit 1; fi ;; "
            f"*) version=1.13.0; [ -e {base}/version ] && version=$(cat {base}/version); "
            f"""echo 'mgw-runtime:["'$version'", "3.{minor}.1"]' ;; esac"""
        )
        return make_script(
            path,
            f"""case "$*" in
*"-m venv "*) mkdir -p "$3/bin"; cat > "$3/bin/python" <<'EOF'
#!/bin/sh
{inner}
EOF
chmod +x "$3/bin/python" ;;
*) printf '[[3, {minor}, 1], "%s", true]\\n' {quoted} ;; esac""",
        )

    return make


@pytest.fixture
def python_folder(tmp_path: Path, make_python: MakePython) -> Path:
    """The folder of the only Python on this machine, a 3.10."""
    return make_python(tmp_path / "path" / "python3.10", 10).parent


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Python, pyenv and uv, to which a test adds some, with an empty cache."""
    for name in ("MEGENGINE_PYTHON", "PYENV_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MGW_RUNTIME_CACHE", str(tmp_path / "cache"))
    # the scripts above need the system's tools, but must not find the system's Pythons
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "mkdir", "cat", "chmod", "sleep"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{tools}")
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
