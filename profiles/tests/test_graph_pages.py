"""The graph of a profile over HTTP, and the uploaded model of its task."""

import gzip
import json

import pytest
from django.urls import reverse

from profiles.formats.load_and_run.reader import parse
from profiles.tests.imports import make_import
from profiles.tests.make import to_json
from profiles.tests.pages import make_result, whole_page
from tasks.models import TaskFile
from tasks.submission.model_heads import model_form
from testdata import DATA, good_profile
from testdata.making import SMALL
from webprofile.storage import storage as object_store

pytestmark = pytest.mark.django_db

MODELS = DATA / "models"


def get_document(client, profile, query=None, **options):
    return client.get(reverse("api:profile-graph-netron", args=[profile.pk]), query, **options)


def store_model(profile, content):
    file = profile.attempt.task.files.get(kind="model")
    object_store.write(file.object_key, content)
    TaskFile.objects.filter(pk=file.pk).update(size_bytes=len(content))


def model_of(client, profile):
    return client.get(reverse("tasks:model", args=[profile.attempt.task_id])).context["model"]


def test_the_document_has_the_view_of_a_scope_or_operator(client, alice):
    profile = make_result(good_profile("deep_loop"), owner=alice)
    view = get_document(client, profile).json()["view"]
    scope = view["nodes"][5][2]
    view = get_document(client, profile, {"scope": scope}).json()["view"]
    assert view["place"] == scope
    view = get_document(client, profile, {"op": "2000"}).json()["view"]
    assert 2000 in [row for _, row, _ in view["nodes"]]


def test_the_query_selects_colours_and_side(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    query = {"colour": "flops", "side": "host"}
    scale = get_document(client, profile, query).json()["view"]["scale"]
    assert scale["metric"] == "flops"
    assert scale["texts"][-1].endswith("FLOP/s")
    invalid = {"colour": "<script>", "side": "none", "scope": "\x00", "op": "-1"}
    response = get_document(client, profile, invalid)
    assert (response.status_code, len(response.json()["errors"])) == (400, 4)


def test_the_document_is_compressed_and_has_an_etag(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    first = get_document(client, profile, headers={"Accept-Encoding": "gzip"})
    assert len(first.content) < len(gzip.decompress(first.content)) / 5
    again = get_document(client, profile, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    other = get_document(client, profile, {"op": "3"}, headers={"If-None-Match": first["ETag"]})
    assert other.status_code == 200


def test_an_operator_that_did_not_run_is_not_in_the_graph(client, alice):
    data = json.loads(good_profile("resnet18"))
    data["graph_exec"]["comp_seq"].remove("791")
    profile = make_result(to_json(data), owner=alice)
    document = get_document(client, profile).json()
    assert all(not name.startswith("[791]") for name, _, _ in document["view"]["nodes"])
    row = parse(good_profile("resnet18")).ids.index("791")
    response = get_document(client, profile, {"op": row})
    assert (response.status_code, response.json()["code"]) == (404, "operator_not_drawn")


def test_the_viewer_gets_a_storage_url_of_the_uploaded_model(client, alice):
    profile = make_result(good_profile("resnet18"), owner=alice)
    store_model(profile, (MODELS / "tiny.mge").read_bytes())
    model = model_of(client, profile)
    assert model["address"].startswith(object_store.presign_get("x").split("?")[0][:-1])
    assert (model["begin"], model["end"]) == (0, (MODELS / "tiny.mge").stat().st_size)


@pytest.mark.parametrize(("before", "after"), [(b"", b"\n"), (b"mgbtest0\x01\0\0\0", b"test data")])
def test_the_viewer_gets_the_graph_alone_of_a_file_with_more(client, alice, before, after):
    content = (MODELS / "tiny.mge").read_bytes()
    profile = make_result(good_profile("tiny"), owner=alice)
    store_model(profile, before + content + after)
    model = model_of(client, profile)
    assert (before + content + after)[model["begin"] : model["end"]] == content
    assert model["size_bytes"] == len(before + content + after)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ((MODELS / "tiny_fbs1.mge").read_bytes(), "FBS_V2"),
        (b"mgb0001 and so on, for some bytes more", "very old"),
        (b"\x89PNG and so on, for some bytes more....", "packed, encrypted"),
    ],
)
def test_a_model_that_the_viewer_cannot_read_has_a_reason_and_no_url(
    client, alice, content, reason
):
    profile = make_result(good_profile("tiny"), owner=alice)
    store_model(profile, content)
    model = model_of(client, profile)
    assert reason in model["reason"]
    assert "address" not in model


def test_a_model_that_is_too_large_or_removed_has_a_reason(client, alice, settings):
    profile = make_result(good_profile("tiny"), owner=alice)
    store_model(profile, (MODELS / "tiny.mge").read_bytes())
    settings.MODEL_VIEW_LIMIT_BYTES = 1000
    assert "larger than" in model_of(client, profile)["reason"]
    TaskFile.objects.update(purged_at="2026-01-01T00:00Z")
    assert "removed" in model_of(client, profile)["reason"]


def test_an_imported_profile_has_a_graph(client, alice):
    profile = make_import(alice, good_profile("tiny")).profile
    assert get_document(client, profile).json()["view"]["operators"] > 0


def test_a_damaged_graph_keeps_its_operators_and_the_table(client, alice):
    data = json.loads(good_profile("resnet18"))
    for variable in data["graph_exec"]["var"].values():
        variable["static_infer_tags"] = 7
    profile = make_result(to_json(data), owner=alice)
    view = get_document(client, profile).json()["view"]
    assert view["operators"] > 0
    assert view["problems"] == ["var"]
    page = client.get(reverse("tasks:detail", args=[profile.attempt.task_id]))
    assert "ConvolutionForward" in page.text


@pytest.mark.parametrize("name", SMALL)
def test_model_form_reads_the_first_bytes_of_a_model(name):
    expected = "v1" if name.endswith("_fbs1") else "v2"
    start = (MODELS / f"{name}.mge").read_bytes()[:32]
    assert model_form(start) == expected
    assert model_form(b"mgbtest0\x01\x00\x00\x00" + start) == expected
    assert model_form(start[:3]) == "other"


def test_an_imported_profile_has_no_model_to_draw(client, alice):
    upload = make_import(alice, good_profile("tiny"))
    page = whole_page(client, f"/profiles/{upload.profile.pk}/")
    assert 'value="executed"' in page
    assert 'name="graph-source" value="model"' not in page
