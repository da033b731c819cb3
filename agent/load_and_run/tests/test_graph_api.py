"""The modules that use MegEngine's graph API, in the runtime's interpreter."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from load_and_run import graph_child, graph_passes
from load_and_run.errors import Failure

from agent.load_and_run.tests.running import GRAPH, ForkServer

pytestmark = pytest.mark.megengine

#: start of each script; arguments: model, flags and inputs
_START = """
import json, os, sys
import numpy as np
from load_and_run.errors import Failure
model, flags = sys.argv[1], json.loads(sys.argv[2])
arrays = [(name, np.load(path)) for name, path in json.loads(sys.argv[3]).items()]

def main():
    {body}

try:
    answer = main()
except Failure as failure:
    answer = {{"kind": failure.kind, "text": str(failure)}}
print(json.dumps(answer))
"""
_TRANSFORM = """
    from load_and_run.graph_passes import transform
    path = transform(model, flags, ".")
    return {"path": path, "has_megengine": "megengine" in sys.modules}
"""
_OPERATORS = """
    from load_and_run import graph_library as api
    library = api.Library({})
    _, outputs = api.load(library, model, {})
    variables = library.tools.get_dep_vars(outputs)
    owners = {var.owner.id: var.owner.type for var in variables}
    return {
        "types": sorted(owners.values()),
        "dtypes": sorted({np.dtype(var.dtype).name for var in variables}),
        "inputs": [[name, np.dtype(var.dtype).name, list(var.shape)]
                   for name, var in api.model_inputs(library, outputs).items()],
        "outputs": [[var.name, np.dtype(var.dtype).name] for var in outputs],
    }
"""
_LITE = """
    import megenginelite
    config = megenginelite.LiteConfig()
    # the check of each value takes ten times as long as the run, and changes no output
    config.options.var_sanity_check_first_run = False
    network = megenginelite.LiteNetwork(config)
    # a path would need a module that load_and_run does not import
    with open(model, 'rb') as file:
        network.load(file)
    for name, array in arrays:
        network.get_io_tensor(name).set_data_by_copy(array)
    network.forward(); network.wait()
    for name in network.get_all_output_name():
        np.save(name.replace("/", "_") + ".npy", network.get_io_tensor(name).to_numpy())
    return network.get_all_output_name()
"""
_NETWORK = """
    from load_and_run.graph_network import GraphNetwork
    network = GraphNetwork(model, flags)
    if flags.get("profile"):
        network.profile_to(flags["profile"])
    for name, array in arrays:
        network.put(name, np.repeat(array, flags.get("repeat", 1), 0))
    for _ in range(3):
        network.forward(); network.wait()
    network.finish()
    for _, name, array in network.outputs():
        np.save(name.replace("/", "_") + ".npy", array)
    return {
        "outputs": [name for _, name, _ in network.outputs()],
        "inputs": [str(tensor) for tensor in network.inputs()],
        "lite": "megenginelite" in sys.modules,
    }
"""
_RANGE = """
    from load_and_run.graph_range import check_range
    check_range(model, flags, arrays, flags["range"])
    return "in range"
"""


class Scripts:
    """Runs a script for a model of testdata/, or for one that a script has written.

    Each script has its own process. MegEngine and megenginelite must not be used in the same one,
    so scripts on networks and operators of MegEngine run in a fork that has it, others in one that
    has megenginelite.
    """

    def __init__(self, folder: Path, data: Path, lite: ForkServer, graph: ForkServer) -> None:
        self.folder, self.data, self._lite, self._graph = folder, data, lite, graph
        entries = json.loads((data / "models" / "models.json").read_text())
        self.inputs = {
            entry["name"]: {
                tensor["name"]: str(data / tensor["file"]) for tensor in entry["inputs"]
            }
            for entry in entries
        }

    def __call__(
        self, body: str, name: str, model: str = "", *, lite_first: bool = False, **flags: object
    ) -> Any:
        """Run a script; lite_first: import megenginelite before, as load_and_run does."""
        path = model or str(self.data / "models" / f"{name}.mge")
        uses_lite = lite_first or body in (_LITE, _RANGE, _TRANSFORM)
        done = (self._lite if uses_lite else self._graph).run(
            [path, json.dumps(flags), json.dumps(self.inputs[name])],
            self.folder,
            _START.format(body=body.strip()),
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def arrays(self, names: list[str]) -> list[np.ndarray]:
        """Return the outputs that the last script has written."""
        return [np.load(self.folder / f"{name}.npy") for name in names]

    def operators(self, name: str, model: str = "") -> Counter[str]:
        return Counter(self(_OPERATORS, name, model)["types"])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home folder that does not exist, for scripts that use MegEngine."""
    return tmp_path_factory.mktemp("graph") / "home"


@pytest.fixture(scope="module")
def graph_server(megengine_python: str, home: Path) -> Iterator[ForkServer]:
    graph_server = ForkServer(megengine_python, GRAPH, HOME=str(home))
    yield graph_server
    graph_server.close()


@pytest.fixture
def scripts(
    tmp_path: Path, testdata: Path, fork_server: ForkServer, graph_server: ForkServer
) -> Scripts:
    return Scripts(tmp_path, testdata, fork_server, graph_server)


def test_only_flags_that_megenginelite_lacks_need_graph_passes():
    for flag in graph_passes.ONLY_PASSES:
        assert graph_passes.needed({flag: True})
    assert graph_passes.needed({"model_dump": "a.mge"})
    assert graph_passes.needed({"get_static_mem_info": "a"})
    for flag in ("enable_nchw44", "enable_fuse_preprocess", "disable_mem_opt", "fast_run"):
        assert not graph_passes.needed({flag: True})
    assert not graph_passes.needed({"model_dump": "", "fuse_grain": False})


def test_two_layouts_are_ignored_as_in_load_and_run():
    both = {"enable_chwn4": True, "enable_nchw44": True}
    assert not graph_passes.needed(both)
    assert graph_passes.absorbed(dict(both, enable_ioc16=True)) >= set(both)


@pytest.mark.exhaustive
def test_optimize_for_inference_folds_batch_norm_and_fuses_on_request(scripts):
    assert scripts.operators("resnet18")["BatchNormForward"] == 20
    answer = scripts(_TRANSFORM, "resnet18", optimize_for_inference=True)
    assert not answer["has_megengine"]  # the child process has imported it
    folded = scripts.operators("resnet18", answer["path"])
    assert folded["BatchNormForward"] == 0
    assert (folded["ConvolutionForward"], folded["ConvBiasForward"]) == (20, 0)

    path = scripts(_TRANSFORM, "resnet18", enable_fuse_conv_bias_nonlinearity=True)["path"]
    fused = scripts.operators("resnet18", path)
    assert fused["ConvBiasForward"] == 17
    assert fused["Elemwise"] == 9 < folded["Elemwise"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("resnet18", {"optimize_for_inference": True}),
        ("resnet18", {"optimize_for_inference": True, "enable_nchw44": True}),
        ("resnet18_fbs1", {"enable_fuse_conv_bias_nonlinearity": True, "fuse_grain": True}),
        ("bert_tiny", {"optimize_for_inference": True}),
    ],
)
def test_a_dumped_model_has_the_same_inputs_and_results(scripts, name, flags):
    names = scripts(_LITE, name)
    plain = scripts.arrays(names)
    scripts(_TRANSFORM, name, model_dump="dumped.mge", **flags)
    assert scripts(_LITE, name, "dumped.mge") == names
    for before, after in zip(plain, scripts.arrays(names), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_allclose(after, before, atol=1e-4)


def test_fuse_grain_is_off_by_default(scripts):
    """Check the options that reach the library; the wheel's own default is on."""
    spied = """
    from load_and_run import graph_library as api
    library = api.Library({})
    seen = []
    def spy(outputs, options):
        seen.append([name for name in sorted(api.FUSIONS.values()) if getattr(options, name)])
        return real(outputs, options)
    class Runtime(object):
        optimize_for_inference = staticmethod(spy)
        GraphOptimizeOptions = library.runtime.GraphOptimizeOptions
    real, library.runtime = library.runtime.optimize_for_inference, Runtime
    for chosen in ({}, flags):
        _, outputs = api.load(library, model, {})
        api.optimize(library, outputs, chosen)
    return seen
    """
    assert scripts(spied, "tiny", fuse_grain=True) == [[], ["fuse_grain"]]


@pytest.mark.exhaustive
def test_ioc16_converts_inner_variables_to_float16(scripts):
    before = scripts(_OPERATORS, "two_inputs")
    path = scripts(_TRANSFORM, "two_inputs", enable_ioc16=True)["path"]
    after = scripts(_OPERATORS, "two_inputs", path)
    assert "float16" not in before["dtypes"]
    assert "float16" in after["dtypes"]
    assert (after["inputs"], after["outputs"]) == (before["inputs"], before["outputs"])
    plain = scripts.arrays(scripts(_LITE, "two_inputs"))
    half = scripts.arrays(scripts(_LITE, "two_inputs", path))
    np.testing.assert_allclose(half[0], plain[0], atol=0.02)


def test_static_memory_info_matches_the_graph_of_load_and_run(scripts, testdata):
    answer = scripts(_TRANSFORM, "resnet18_opt", get_static_mem_info="/memory/plan")
    assert answer["path"].endswith(
        "resnet18_opt.mge"
    )  # without a pass the model is not written again
    folder = scripts.folder / "memory" / "plan"
    info = json.loads((folder / "StaticMemoryInfo.json").read_text())
    graph = json.loads((folder / "graph.json").read_text())
    profile = testdata / "load_and_run" / "resnet18_opt__profile" / "profile.json"
    real = json.loads(profile.read_text())["graph_exec"]
    assert len(info["opr"]) == len(graph["comp_seq"]) == len(real["comp_seq"])
    with_bytes = [chunk for chunk in real["mem_chunk"].values() if chunk["size"]]
    assert len(info["chunk"]) == len(with_bytes) == 96
    assert max(int(chunk["logic_addr_end"]) for chunk in info["chunk"].values()) > 1_000_000
    assert sorted(path.name for path in scripts.folder.iterdir()) == ["memory"]


def test_an_error_in_the_child_has_the_message_of_the_library(scripts):
    broken = str(scripts.data / "bad" / "models" / "flipped_64.mge")
    answer = scripts(_TRANSFORM, "tiny", broken, optimize_for_inference=True)
    assert answer["kind"] == "mgb::MegBrainError"
    assert "model verification failed" in answer["text"]


def test_a_killed_child_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_child, "_LAUNCH", "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(Failure, match="graph passes was ended by SIGSEGV"):
        graph_child.run("passes", {}, str(tmp_path))
    monkeypatch.setattr(graph_child, "_LAUNCH", "raise SystemExit(3)")
    with pytest.raises(Failure, match="ended with exit code 3"):
        graph_child.run("passes", {}, str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["resnet18", "bert_tiny", "dynamic_shape", "no_op", "quantized"])
def test_the_graph_network_has_the_outputs_of_megenginelite(scripts, home, name):
    names = scripts(_LITE, name)
    lite = scripts.arrays(names)
    answer = scripts(_NETWORK, name)
    assert sorted(answer["outputs"]) == sorted(names)
    assert not answer["lite"]
    for before, after in zip(lite, scripts.arrays(names), strict=True):
        assert before.dtype == after.dtype
        np.testing.assert_allclose(after, before, atol=1e-4)
    assert not home.exists()  # MegEngine created no cache


def test_the_profiled_graph_is_that_of_load_and_run_plus_input_and_output(scripts, testdata):
    scripts(_NETWORK, "resnet18_opt", profile="p.json")
    profile = json.loads((scripts.folder / "p.json").read_text())
    graph = profile["graph_exec"]
    path = testdata / "load_and_run" / "resnet18_opt__profile" / "profile.json"
    real = json.loads(path.read_text())["graph_exec"]
    for key, more in (("operator", 1), ("var", 2), ("mem_chunk", -2)):
        assert len(graph[key]) == len(real[key]) + more, key
    assert len(profile["profiler"]["device"]) == len(graph["comp_seq"])


@pytest.mark.exhaustive
def test_a_model_runs_with_another_batch_size(scripts):
    names = scripts(_NETWORK, "resnet18_fbs1")["outputs"]
    (one,) = scripts.arrays(names)
    scripts(_NETWORK, "resnet18_fbs1", repeat=3)
    (three,) = scripts.arrays(names)
    assert three.shape == (3, one.shape[1])
    np.testing.assert_allclose(three, np.repeat(one, 3, 0), atol=1e-4)


@pytest.mark.exhaustive
def test_fast_run_writes_and_reads_the_algorithm_cache(scripts):
    file = scripts.folder / "cache.bin"
    run = {"fast_run": True, "fast_run_algo_policy": "cache.bin"}
    assert scripts(_NETWORK, "two_inputs", lite_first=True, **run)["lite"]
    content = file.read_bytes()
    assert len(content) > 500
    scripts(_NETWORK, "two_inputs", fast_run_algo_policy="cache.bin")
    assert len(file.read_bytes()) == len(content)


@pytest.mark.exhaustive
def test_mdl_applies_graph_passes_and_writes_their_files(scripts):
    flags = {"optimize_for_inference": True, "model_dump": "m.mge", "get_static_mem_info": "mem"}
    answer = scripts(
        _NETWORK, "resnet18", **flags, copy_to_host=True, no_sanity_check=True, profile="p.json"
    )
    assert answer["inputs"] == ["data float32 {1,3,224,224}"]
    assert scripts.operators("resnet18", "m.mge")["BatchNormForward"] == 0
    operators = json.loads((scripts.folder / "p.json").read_text())["graph_exec"]["operator"]
    assert len(operators) == 94
    assert (scripts.folder / "mem" / "StaticMemoryInfo.json").stat().st_size > 1000


def test_the_error_for_an_input_out_of_range_is_that_of_load_and_run(scripts, testdata):
    answer = scripts(_RANGE, "resnet18_opt", range=0.001)
    assert answer["kind"] == "mgb::NumRangeCheckerError"
    real = (testdata / "load_and_run" / "err__range" / "stderr.txt").read_text()
    assert "float value out of range: var: {id:" in answer["text"]
    line = " value={:.6g} range=0.001 index={{0,0,0,0}}/{{1,3,224,224}}"
    assert line.format(-0.24229) in real
    first = np.load(testdata / "inputs" / "resnet18_opt" / "data.npy").flat[0]
    assert line.format(first) in answer["text"]
    described = "layout:{1(150528),3(50176),224(224),224(1) Float32}, Float32, owner:data{Host2"
    assert described in real
    assert described in answer["text"]


@pytest.mark.exhaustive
def test_mdl_checks_the_range_in_the_optimized_graph(scripts):
    """The first value above 1.2 is the variance of a BatchNorm, which --mdl folds."""
    flags = {"range": 1.2, "optimize_for_inference": True}
    assert "name:bn1.running_var" in scripts(_RANGE, "resnet18", **flags)["text"]
    assert "{ConvolutionForward}" in scripts(_RANGE, "resnet18", mdl=True, **flags)["text"]


def test_the_range_of_weights_and_inner_variables_is_checked(scripts):
    mask = "attention_mask"
    scripts.inputs["bert_tiny"].pop(mask)  # an input that is not given is zero
    answer = scripts(_RANGE, "bert_tiny", range=100)
    assert answer["kind"] == "mgb::NumRangeCheckerError"
    assert "{ImmutableTensor}" in answer["text"]
    assert "value=-10000 range=100 index={0}/{1}" in answer["text"]


def test_nan_is_out_of_any_range(scripts):
    path = scripts.folder / "nan.npy"
    np.save(path, np.full((2, 8), np.nan, np.float32))
    scripts.inputs["tiny"] = {"data": str(path)}
    assert "value=nan" in scripts(_RANGE, "tiny", range=1e30)["text"]
