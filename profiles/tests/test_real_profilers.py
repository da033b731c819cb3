"""Files of MegEngine's real profilers, written by the examples for users."""

from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.models import ProfileUpload
from profiles.tests.imports import make_import
from profiles.tests.megengine import run_python
from profiles.tests.pages import whole_page

EXAMPLES = Path(settings.BASE_DIR) / "examples"
pytestmark = [pytest.mark.megengine, pytest.mark.django_db]

#: a training step for each of `argv[2:]`, which are keyword arguments of the Profiler, and a static
#: profile; a step of small inputs has as many operators as one of large inputs
VARIANTS = """
import ast, os, sys
import numpy as np, megengine
from megengine.utils.profiler import Profiler
from profile_training import Trainer, profile_static
data = megengine.Tensor(np.ones((1, 3, 32, 32), np.float32))
label = megengine.Tensor(np.zeros(1, np.int32))
profile_static(data, label, os.path.join(sys.argv[1], "static.json"))
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
PARTS = ("operator-table", "chart-timeline", "graph", "statistics", "advice", "export")
CHARTS = ("roofline", "timeline", "memory", "types")


def files_of(folder: Path) -> dict[str, bytes]:
    """Return files by the part of their name that follows the process id."""
    return {path.name.split(".", 1)[1]: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def run_example(megengine_python, tmp_path_factory):
    """Return a function that returns the files of an example, which is run once."""

    @cache
    def files(example: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp(example)
        run_python(megengine_python, EXAMPLES / f"{example}.py", folder)
        return files_of(folder)

    return files


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", ["profile_inference", "profile_training"])
def test_all_files_of_an_example_are_imported_as_one_run(client, alice, run_example, example):
    files = run_example(example)
    assert set(files) == {"json", "chrome_timeline.json", "memory_flow.svg"}
    static, timeline = files["json"], files["chrome_timeline.json"]
    upload = make_import(alice, static, timeline, files["memory_flow.svg"])
    assert upload.state == ProfileUpload.State.READY
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    for part in (*PARTS, "trace-phases", "trace-lanes"):
        assert f'id="{part}"' in page
    assert 'id="left-out"' not in page


@pytest.fixture(scope="module")
def variants(megengine_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    (folder / "variants.py").write_text(VARIANTS)
    options = [variant[0] for variant in SET_UP]
    run_python(megengine_python, folder / "variants.py", folder, *options, path=EXAMPLES)
    return folder


@pytest.mark.exhaustive
def test_a_compiled_training_step_has_all_pages_of_a_profile(client, alice, run_example, variants):
    upload = make_import(alice, run_example("profile_training")["json"])
    place = f"/profiles/{upload.profile.pk}/"
    page = whole_page(client, place)
    for part in PARTS:
        assert f'id="{part}"' in page
    assert "ConvolutionBackwardFilter" in client.get(f"{place}export/csv/").text
    for chart in CHARTS:
        response = client.get(f"/api/v1{place}charts/{chart}/")
        assert response.status_code == 200, chart
        assert len(response.content) > 300, chart
    other = make_import(alice, (variants / "static.json").read_bytes())
    pair = f"/profiles/compare/?p={upload.profile.pk}&p={other.profile.pk}"
    assert "ConvolutionBackwardFilter" in client.get(pair).text


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(SET_UP)))
def test_traces_of_all_profiler_options_are_read(client, alice, variants, number):
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
    upload = make_import(alice, path.read_bytes())
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    assert ("No device times were recorded" in page) is not device
