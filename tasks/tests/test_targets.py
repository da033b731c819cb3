"""Tests of tasks for any matching device: the selected device, and error messages."""

import pytest
from django.utils import timezone

from tasks.scheduling.targets import Target, read_target
from tasks.tests.make import (
    go_offline,
    make_task,
    make_task_for_any_device,
    make_worker,
    occupy,
)
from webprofile.errors import DomainError
from webprofile.messages.errors import word
from workers.models import Grant, Pool, Runtime

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def refusal_text(owner, **target) -> str:
    with pytest.raises(DomainError) as caught:
        make_task_for_any_device(owner, **target)
    return word(caught.value)


def test_target_selects_a_device_and_its_newest_matching_version(alice):
    make_worker("other", labels={"chip": "A"}, version="1.13.0")
    worker = make_worker("fits", labels={"chip": "B", "memory": "8"}, version="1.9.0")
    for version in ("1.12.4", "1.13.0", "1.10.0"):
        Runtime.objects.create(worker=worker, version=version, kind="wheel")
    Pool.objects.create(name="lab").workers.add(worker)
    task = make_task_for_any_device(alice, {"chip": "B"}, pool="lab", versions="<1.13")
    # 1.12 is newer than 1.9, although it sorts before it as text
    assert (task.worker, task.runtime_version) == (worker, "1.12.4")
    assert task.target == {"labels": {"chip": "B"}, "pool": "lab", "versions": "<1.13"}


def test_target_matches_labels_of_the_agents_configuration(alice):
    worker = make_worker(facts={"labels": {"chip": "C"}})
    assert make_task_for_any_device(alice, {"chip": "C"}).worker == worker


def test_target_selects_the_matching_device_that_is_free_first(alice):
    busy, free = make_worker("a-busy"), make_worker("b-free")
    occupy(busy, alice)
    assert make_task_for_any_device(alice).worker == free


def test_target_skips_devices_that_take_no_tasks(alice):
    make_worker("a", online=False)
    make_worker("b", is_enabled=False)
    make_worker("c", held_at=timezone.now(), held_reason="it failed")
    make_worker("d", retired_at=timezone.now())
    worker = make_worker("e")
    assert {make_task_for_any_device(alice).worker for _ in range(2)} == {worker}


def test_target_matches_a_private_device_only_with_a_grant(alice):
    private = make_worker("private", is_public=False, labels={"chip": "X"})
    assert "You have no access to any device" in refusal_text(alice, labels={"chip": "X"})
    Grant.objects.create(worker=private, user=alice)
    assert make_task_for_any_device(alice, {"chip": "X"}).worker == private


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ({"labels": {"gpu": "T4"}}, ["None of your devices", "label gpu", "chip"]),
        ({"labels": {"chip": "Z"}}, ["chip=Z", "one (A)", "two (B)"]),
        ({"labels": {"chip": "A", "memory": "8"}}, ["None of your devices has all", "memory=8"]),
        ({"pool": "attic"}, ["pool attic does not exist", "lab"]),
        ({"pool": "lab", "labels": {"chip": "B"}}, ["pool lab", "two"]),
        ({"versions": ">=2"}, [">=2", "one (1.13.0)", "two (1.13.0)"]),
    ],
)
def test_message_for_an_unmet_target_names_alternatives(alice, target, parts):
    one = make_worker("one", labels={"chip": "A"})
    make_worker("two", labels={"chip": "B", "memory": "8"})
    make_worker("hidden", labels={"chip": "Z", "gpu": "T4"}, is_public=False, version="2.0")
    Pool.objects.create(name="lab").workers.add(one)
    text = refusal_text(alice, **target)
    for part in parts:
        assert part.lower() in text.lower()
    assert "hidden" not in text


def test_message_for_unavailable_matches_names_their_status(alice):
    go_offline(make_worker("one"))
    make_worker("new", online=False)
    make_worker("two", is_enabled=False)
    make_worker("three", held_at=timezone.now())
    text = refusal_text(alice)
    for part in ("one (offline)", "new (never connected)", "two (drained)", "three (quarantined)"):
        assert part in text


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({"versions": "1.13"}, "target_versions_bad"),
        ({"versions": ">=1.0;rm"}, "target_versions_bad"),
        ({"versions": ">=1," * 200}, "target_versions_bad"),
        ({"labels": {"": "x"}}, "target_label_bad"),
        ({"labels": {"chip": " "}}, "target_label_bad"),
        ({"labels": {"chip": "a\x00"}}, "target_label_bad"),
        ({"labels": {str(n): "x" for n in range(11)}}, "target_labels_many"),
        ({"pool": "x" * 201}, "target_bad"),
    ],
)
def test_invalid_target_is_rejected(target, code):
    with pytest.raises(DomainError) as caught:
        read_target(target)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("versions", "selected"),
    [("", "1.13.0+cu118"), (">=1.9", "1.13.0+cu118"), ("===nightly", "nightly"), ("<1.13", "")],
)
def test_version_without_numbers_matches_only_its_exact_name(alice, versions, selected):
    worker = make_worker("desk", version="nightly")
    Runtime.objects.create(worker=worker, version="1.13.0+cu118", kind="wheel")
    if selected:
        assert make_task_for_any_device(alice, versions=versions).runtime_version == selected
    else:
        assert "desk (1.13.0+cu118, nightly)" in refusal_text(alice, versions=versions)


def test_device_and_target_together_are_rejected(alice):
    worker = make_worker()
    with pytest.raises(DomainError, match="target_and_worker"):
        make_task(alice, worker, target=Target())


def test_target_skips_devices_that_lack_an_option(alice):
    plain = make_worker("a-plain")
    able = make_worker("b-able", facts={"cores": 4})
    Runtime.objects.filter(worker=able).update(kind="binary", builds=["cuda"])
    assert make_task_for_any_device(alice, options={"cuda": True}).worker == able
    Runtime.objects.filter(worker=able).delete()
    with pytest.raises(DomainError, match="option_cuda"):
        make_task_for_any_device(alice, options={"cuda": True})
    assert make_task_for_any_device(alice).worker == plain
