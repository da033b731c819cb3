"""Memory plans compared with MegEngine: figures of graph_info_analyze, and new plans."""

import json
import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from profiles.formats.static_memory.summary import StaticMemory, read_static_memory
from profiles.tests.megengine import run_python
from profiles.tests.static_plans import NAMES, graph_of, plan_of
from testdata import DATA

#: runs the tool's functions with a writer that keeps what they write for TensorBoard
_TOOL = """
import json, sys, types
module = types.ModuleType("megengine.utils.tensorboard")
module.SummaryWriterExtend = object
sys.modules[module.__name__] = module
from megengine.tools import graph_info_analyze as tool

class Writer:
    def __init__(self):
        self.texts = []
    def add_text(self, tag, text, step=None):
        self.texts.append([tag, text[0]])
    def __getattr__(self, name):
        return lambda *arguments: None

figures = {}
for path in sys.argv[1:]:
    writer = Writer()
    tool.peak_mem_regist(path, writer)
    sizes = {key: opr["size"] for key, opr in tool.load_mem_info(path)["opr"].items()}
    figures[path] = {"texts": writer.texts, "sizes": sizes}
print(json.dumps(figures))
"""
#: writes the plan of each model as load_and_run of the wheel does, in processes forked from one
#: that has imported MegEngine; arguments: the agent's folder, the models
_WRITE = """
import os, sys, warnings
warnings.simplefilter("ignore")
sys.path.append(sys.argv[1])
import megengine
from load_and_run import graph_passes
for model in sys.argv[2:]:
    if os.fork() == 0:
        folder = os.path.basename(model)
        os.mkdir(folder)
        os.chdir(folder)
        job = {"model": model, "flags": {"get_static_mem_info": "m"}, "path": "", "shapes": {}}
        graph_passes.work(job)
        sys.exit()
    if os.wait()[1]:
        sys.exit(model)
"""
AGENT = Path(__file__).parents[2] / "agent"

pytestmark = pytest.mark.megengine


def read_summary(plan: Path, graph: Path | None = None) -> StaticMemory:
    return msgspec.json.decode(read_static_memory(plan, graph), type=StaticMemory)


@pytest.fixture(scope="module")
def figures(megengine_python, tmp_path_factory) -> dict[str, tuple[dict, StaticMemory]]:
    """Figures of each sample: those of the tool and ours."""
    folder = tmp_path_factory.mktemp("plans")
    paths = {name: folder / f"{name}.json" for name in NAMES}
    for name, path in paths.items():
        path.write_bytes(plan_of(name))
    output = run_python(megengine_python, "-W", "ignore", "-c", _TOOL, *paths.values(), cwd=folder)
    output = json.loads(output.splitlines()[-1])
    return {name: (output[str(path)], read_summary(path)) for name, path in paths.items()}


@pytest.mark.parametrize("name", NAMES)
def test_figures_equal_those_of_graph_info_analyze(figures, name):
    tool, ours = figures[name]
    texts = tool["texts"]

    def in_brackets(tag: str) -> int:
        (text,) = [text for text_tag, text in texts if text_tag == tag]
        return int(re.search(r"\((\d+) B\)", text)[1])

    assert in_brackets("PEAK_MEMORY_SIZE") == ours.peak_bytes
    assert in_brackets("WEIGHT_MEMORY_SIZE") == ours.weight_bytes
    sizes = [tool["sizes"][str(step)] for step in range(ours.operators_count)]
    assert list(ours.curve_bytes) == sizes
    assert max(sizes) == ours.most_alive_bytes
    steps = [step for run in ours.moments for step in range(run.first, run.last + 1)]
    assert [step for step, size in enumerate(sizes) if size == max(sizes)] == steps


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_the_peak_equal_those_of_graph_info_analyze(figures, name):
    tool, ours = figures[name]
    names = {operator.step: operator.name for operator in ours.operators}
    writers = {chunk.id: names[chunk.begin] for chunk in ours.chunks if not chunk.is_weight}
    first = ours.moments[0]
    of_first = [(tag, text) for tag, text in tool["texts"] if tag.startswith("PEAK0/MAX")]
    shares = [text.split()[1] for _, text in of_first if text.startswith("percent:")]
    assert shares == [f"{percent}%" for percent in first.percent]
    owners = [text.split(None, 1)[1] for _, text in of_first if text.startswith("owner_opr:")]
    # the tool orders equal sizes as in the file, whose order is that of a hash table
    assert sorted(owners) == sorted(writers[number] for number in first.chunks)
    summaries = [text for tag, text in tool["texts"] if tag == "PEAK0/<SUMMARY_INFO>"]
    assert summaries[0].split(None, 1)[1] == names[first.first]


@pytest.fixture(scope="module")
def new_plans(megengine_python, tmp_path_factory) -> Path:
    """A folder with the files of each model in a folder of its name."""
    folder = tmp_path_factory.mktemp("new")
    models = [DATA / "models" / f"{name}.mge" for name in NAMES]
    run_python(megengine_python, "-W", "ignore", "-c", _WRITE, AGENT, *models, cwd=folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_newly_written_plans_equal_the_samples(new_plans, tmp_path, name):
    folder = new_plans / f"{name}.mge" / "m"
    new_plan = read_summary(folder / "StaticMemoryInfo.json", folder / "graph.json")
    (tmp_path / "plan").write_bytes(plan_of(name))
    (tmp_path / "graph").write_bytes(graph_of(name))
    sample = read_summary(tmp_path / "plan", tmp_path / "graph")
    assert stable_figures(new_plan) == stable_figures(sample)


def stable_figures(memory: StaticMemory) -> list[object]:
    """Return the figures that do not vary; the order of chunks of equal lifetime does."""
    chunks = Counter(
        (chunk.is_weight, chunk.begin, chunk.last, chunk.size_bytes, chunk.variable, chunk.shape)
        for chunk in memory.chunks
    )
    sums = (memory.most_alive_bytes, memory.sum_bytes, memory.weight_bytes, memory.unplanned)
    return [sums, memory.curve_bytes, memory.operators, chunks]
