"""Allowing scripts on a device, and the texts about it."""

import io

import pytest
from django.core.management import call_command

from accounts.models import AuditEntry
from tasks.dispatch import gateway
from tasks.tests.make import make_worker
from tasks.tests.scripts import SCRIPTS_HELLO, make_script_worker
from workers import services
from workers.models import Worker
from workers.tests.make import run_admin_action

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(client, root):
    client.force_login(root)
    return root


def test_scripts_are_not_allowed_by_default(root):
    worker = services.register_worker(name="box", by=root)
    gateway.on_hello(worker, SCRIPTS_HELLO)
    worker.refresh_from_db()
    assert (worker.allows_scripts, worker.offers_scripts) == (False, True)
    assert not worker.takes_scripts


def test_allowing_scripts_needs_confirmation_with_a_warning(client, root):
    worker = make_worker("box")
    page = run_admin_action(client, worker, "allow_scripts").text
    assert "Allows users of this device to run any Python code on it" in page
    assert "The sandbox is not a virtual machine" in page
    assert not Worker.objects.get().allows_scripts
    page = run_admin_action(client, worker, "allow_scripts", confirm="yes").text
    assert Worker.objects.get().allows_scripts
    assert "box can run scripts, if the configuration of its agent allows them" in page
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("worker.allow_scripts", root)
    assert entry.after == {"allows_scripts": True}
    log = client.get("/admin/accounts/auditentry/").text
    assert "Scripts allowed" in log


def test_the_admin_page_shows_what_is_missing(client, root):
    address = "/admin/workers/worker/{}/change/"
    for columns, text in (
        ({}, "<dt>Scripts</dt><dd>no</dd>"),
        ({"allows_scripts": True}, "allow = true under [scripts]"),
        (
            {"offers_scripts": True},
            "not allowed by an administrator, although the configuration of the agent allows them",
        ),
        ({"allows_scripts": True, "offers_scripts": True}, "users can run scripts, in a sandbox"),
    ):
        worker = make_worker(**columns)
        page = client.get(address.format(worker.pk)).text
        assert text in page
        offered = "forbid_scripts" if worker.allows_scripts else "allow_scripts"
        assert f"/act/{offered}/" in page
    assert "allowed, in a sandbox" in client.get(f"/workers/{worker.name}/").text


@pytest.mark.parametrize(
    ("columns", "words", "link"),
    [
        ({}, "neither an administrator nor the device’s owner", "/admin/workers/worker/"),
        ({"allows_scripts": True}, "Set allow = true under [scripts]", "/agent/#agent-scripts"),
        ({"offers_scripts": True}, "but no administrator of this site does", "/admin/workers/"),
    ],
)
def test_administrators_see_whose_permission_is_missing(client, root, columns, words, link):
    worker = make_worker("box", **columns)
    page = client.get(f"/workers/{worker.name}/").text
    text = page.partition('id="device-scripts"')[2].partition("</dd>")[0]
    assert words in text
    assert link in text
    form = client.get("/tasks/new/").text
    notice = form.partition('id="no-scripts"')[2].partition("</div>")[0]
    assert f'<a href="/admin/workers/worker/{worker.pk}/change/">box</a>' in notice
    assert words in notice


def test_users_see_whose_permission_is_missing_without_links_to_the_admin_site(client, alice):
    worker = make_worker("box", offers_scripts=True)
    client.force_login(alice)
    page = client.get(f"/workers/{worker.name}/").text
    assert "but no administrator of this site does" in page
    assert "/admin/" not in page
    assert "Ask an administrator." in client.get("/tasks/new/").text


def test_users_cannot_allow_scripts(client, alice):
    worker = make_worker("box")
    client.force_login(alice)
    assert run_admin_action(client, worker, "allow_scripts", confirm="yes").status_code == 403
    assert not Worker.objects.get().allows_scripts


def test_the_command_allows_and_forbids_scripts():
    make_script_worker("box", allows_scripts=False)
    out = io.StringIO()
    call_command("workers", "allow-scripts", "box", stdout=out)
    assert Worker.objects.get().takes_scripts
    call_command("workers", "forbid-scripts", "box", stdout=out)
    call_command("workers", "forbid-scripts", "box", stdout=out)
    assert out.getvalue() == (
        "box can run scripts, if the configuration of its agent allows them too.\nbox starts no "
        "more scripts.\nScripts were already forbidden on box.\n"
    )
    assert AuditEntry.objects.count() == 2
