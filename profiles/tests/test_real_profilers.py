"""Files of MegEngine's real profilers, written by the examples for users."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.models import ProfileUpload
from profiles.tests.imports import make_import

EXAMPLES = Path(settings.BASE_DIR) / "examples"
pytestmark = [pytest.mark.megengine, pytest.mark.django_db]

#: a training step for each of `argv[2:]`, which are keyword arguments of the Profiler
VARIANTS = """
import ast, os, sys
import numpy as np, megengine
from megengine.utils.profiler import Profiler
from profile_training import BATCH, SIZE, Trainer
data = megengine.Tensor(np.ones((BATCH, 3, SIZE, SIZE), np.float32))
label = megengine.Tensor(np.zeros(BATCH, np.int32))
trainer = Trainer()
trainer.step(data, label).numpy()
for number, options in enumerate(sys.argv[2:]):
    folder = os.path.join(sys.argv[1], str(number))
    with Profiler(path=folder, format="chrome_timeline.json", **ast.literal_eval(options)):
        trainer.step(data, label).item()
"""
#: arguments of the Profiler, whether it records devices, least number of points of memory curves
SET_UP = [
    ("{'sample_rate': 0}", True, 5),
    ("{'sample_rate': 1}", True, 100),
    ("{'profile_device': False}", False, 5),
    ("{'profile_device': False, 'sample_rate': 10}", False, 20),
    ("{'with_scopes': True}", True, 5),
    ("{'with_backtrace': True}", True, 5),
]
#: sections of the page of any profile with operators
PARTS = ("part-operators", "part-pictures", "part-graph", "statistics", "part-advice", "export")
PICTURES = ("roofline", "timeline", "memory", "types")


def run(python: str, *arguments: str) -> None:
    completed = subprocess.run(
        [python, *arguments],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-2000:]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return files by the part of their name that follows the process id."""
    return {path.name.split(".", 1)[1]: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def runs(megengine_python, tmp_path_factory):
    """Return a function that returns the files of a run of an example; each run is made once."""

    @cache
    def files(example: str, number: int = 1) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp(f"{example}-{number}")
        run(megengine_python, str(EXAMPLES / f"{example}.py"), str(folder))
        return files_of(folder)

    return files


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", ["profile_inference", "profile_training"])
def test_all_files_of_an_example_are_one_run(client, alice, runs, example):
    files = runs(example)
    assert set(files) == {"json", "chrome_timeline.json", "memory_flow.svg"}
    static, timeline = files["json"], files["chrome_timeline.json"]
    opened = make_import(alice, static, timeline, files["memory_flow.svg"])
    assert opened.state == ProfileUpload.State.READY
    page = client.get(f"/profiles/{opened.profile.pk}/").text
    for part in (*PARTS, "trace-phases", "trace-lanes"):
        assert f'id="{part}"' in page
    assert 'id="left-out"' not in page


@pytest.mark.exhaustive
def test_a_compiled_training_step_has_every_page_of_a_profile(client, alice, runs):
    opened = make_import(alice, runs("profile_training")["json"])
    place = f"/profiles/{opened.profile.pk}/"
    page = client.get(place).text
    for part in PARTS:
        assert f'id="{part}"' in page
    assert "ConvolutionBackwardFilter" in client.get(f"{place}export/csv/").text
    for picture in PICTURES:
        response = client.get(f"/api/v1{place}pictures/{picture}/")
        assert response.status_code == 200, picture
        assert len(response.content) > 300, picture
    other = make_import(alice, runs("profile_training", 2)["json"])
    pair = f"/profiles/compare/?p={opened.profile.pk}&p={other.profile.pk}"
    assert "ConvolutionBackwardFilter" in client.get(pair).text


@pytest.fixture(scope="module")
def variants(megengine_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    (folder / "variants.py").write_text(VARIANTS)
    run(
        megengine_python,
        str(folder / "variants.py"),
        str(folder),
        *(variant[0] for variant in SET_UP),
    )
    return folder


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(SET_UP)))
def test_the_profiler_is_read_however_it_was_set_up(client, alice, variants, number):
    _, device, memory_points = SET_UP[number]
    (path,) = (variants / str(number)).iterdir()
    profile = read_dynamic(path)
    assert len(profile.columns) > 250
    assert {phase.name for phase in profile.summary.phases} == {
        "forward", "backward", "step", "clear_grad"
    }  # fmt: skip
    assert (profile.columns.device.total_s() is not None) is device
    memory = next(curve for curve in profile.summary.curves if curve.name.endswith("_alloc_mem"))
    assert (len(memory.at_s) > memory_points) is (memory_points > 5)
    assert (profile.summary.unpaired, profile.summary.broken) == (0, 0)
    opened = make_import(alice, path.read_bytes())
    page = client.get(f"/profiles/{opened.profile.pk}/")
    assert page.status_code == 200
    assert ("No device times were recorded" in page.text) is not device
