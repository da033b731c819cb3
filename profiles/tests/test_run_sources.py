"""Files imported together: the source of each section, and warnings about mismatches."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from profiles.actors import build_opened
from profiles.imports.uploads import create_import
from profiles.models import ProfileUpload
from profiles.tests import flows, traces
from profiles.tests.imports import confirm_upload, file_to_open
from profiles.tests.make import MEMORY, TIMELINE
from profiles.tests.pages import whole_page
from profiles.tests.static_plans import NAMES, graph_of, plan_of
from testdata import good_profile
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db


def import_page(client, owner, *files: tuple[str, bytes]) -> str:
    """Import the files together and return their result page."""
    upload = create_import(owner=owner, files=[file_to_open(data, name) for name, data in files])
    for row, (_name, data) in zip(upload.files.all(), files, strict=True):
        object_store.write(row.object_key, data)
    confirm_upload(upload)
    build_opened(upload.pk)
    upload.refresh_from_db()
    return whole_page(client, f"/profiles/{upload.profile.pk}/")


def section(page: str, place: str) -> str:
    return page.split(f'id="{place}"')[1].split("</section>")[0] if f'id="{place}"' in page else ""


def test_the_page_lists_the_sections_of_each_file(client, alice):
    files = [("mine.json", traces.MLP.read_bytes()), ("mine.svg", flows.MLP.read_bytes())]
    page = import_page(client, alice, *files)
    sources = section(page, "sources")
    trace, memory = sources.split("<li>")[1:]
    assert "mine.json" in trace
    assert "training step, totals, operators and charts" in trace
    assert "mine.svg" in memory
    assert "memory over time" in memory
    assert section(page, "mismatches") == ""


def test_a_single_file_has_no_list_of_sources(client, alice):
    page = import_page(client, alice, ("a.json", traces.MLP.read_bytes()))
    assert 'id="sources"' not in page
    assert 'id="mismatches"' not in page


def test_a_training_trace_beside_an_inference_causes_a_warning(client, alice):
    step = traces.RESNET.read_bytes()
    files = [("resnet18.json", good_profile("resnet18")), ("step.json", step)]
    page = import_page(client, alice, *files)
    mismatches = section(page, "mismatches")
    assert "step.json\u2069” has a backward pass" in mismatches
    assert "resnet18.json\u2069” has no backward operators" in mismatches
    sources = section(page, "sources")
    assert "totals, operators, charts and graph" in sources
    assert "training step: phases" in sources


def test_a_training_step_beside_its_own_trace_causes_no_warning(client, alice):
    files = [("p.json", good_profile("train_mlp")), ("step.json", traces.MLP.read_bytes())]
    assert section(import_page(client, alice, *files), "mismatches") == ""


@pytest.mark.parametrize(
    ("trace", "flow"), [(traces.MLP, flows.RESNET), (traces.RESNET, flows.MLP)]
)
def test_a_memory_flow_of_another_program_causes_a_warning(client, alice, trace, flow):
    files = [(TIMELINE, trace.read_bytes()), (MEMORY, flow.read_bytes())]
    page = import_page(client, alice, *files)
    assert "few tensor names in common" in section(page, "mismatches")
    profile = ProfileUpload.objects.get().profile
    (mismatch,) = client.get(f"/api/v1/profiles/{profile.pk}/statistics/").json()["mismatches"]
    assert "few tensor names in common" in mismatch


@pytest.mark.parametrize("model", NAMES)
def test_a_memory_plan_beside_a_profile_of_its_own_model_causes_no_warning(client, alice, model):
    files = [("p.json", good_profile(model)), ("plan.json", plan_of(model))]
    page = import_page(client, alice, *files, ("graph.json", graph_of(model)))
    assert section(page, "mismatches") == ""


@pytest.mark.parametrize(("model", "is_warned"), [("bert_tiny", True), ("resnet18", False)])
def test_a_memory_plan_of_another_model_causes_a_warning(client, alice, model, is_warned):
    plan, graph = plan_of("resnet18_opt"), graph_of("resnet18_opt")
    files = [("p.json", good_profile(model)), ("plan.json", plan), ("graph.json", graph)]
    mismatches = section(import_page(client, alice, *files), "mismatches")
    assert ("No operator of the memory plan" in mismatches) is is_warned


def test_two_files_with_the_same_name_are_numbered(client, alice):
    files = [(MEMORY, flows.RESNET.read_bytes()), (MEMORY, flows.MLP.read_bytes())]
    left_out = section(import_page(client, alice, *files), "left-out")
    assert f"{MEMORY} (2)</bdi>" in left_out
    assert f"“\u2068{MEMORY} (1)\u2069”, a file of the same kind, is displayed" in left_out
    assert "Another file" not in left_out


def test_the_first_of_several_profiles_is_shown(client, alice):
    names = ("resnet18", "bert_tiny")
    files = [SimpleUploadedFile(f"{name}.json", good_profile(name)) for name in names]
    client.post("/profiles/opened/", {"files": files})
    upload = ProfileUpload.objects.get()
    build_opened(upload.pk)
    assert upload.name == "resnet18"
    page = whole_page(client, f"/profiles/opened/{upload.pk}/")
    left_out = section(page, "left-out")
    assert "bert_tiny.json</bdi>" in left_out
    assert "Its operators differ from those of “\u2068resnet18.json\u2069”" in left_out
