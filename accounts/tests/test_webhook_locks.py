"""Concurrent changes of a webhook and of its events, on PostgreSQL; SQLite has one writer."""

import pytest
from django.db import OperationalError, connection, transaction

from accounts.models import Webhook
from accounts.tests.threads import at_once
from accounts.webhooks.registration import add_webhook
from tasks.lifecycle.outcomes import abandon_task
from tasks.tests.make import make_task, make_user, make_worker

pytestmark = [pytest.mark.production, pytest.mark.django_db(transaction=True)]


def test_a_webhook_is_not_removed_between_an_event_and_its_commit():
    alice = make_user()
    webhook, _ = add_webhook(alice, url="https://hooks.test/", events=["task.finished"])
    task = make_task(owner=alice, worker=make_worker())

    def remove():
        with pytest.raises(OperationalError), transaction.atomic():
            with connection.cursor() as cursor:
                # other tests get this connection from the pool
                cursor.execute("SET LOCAL lock_timeout = 500")
            Webhook.objects.get(pk=webhook.pk).delete()

    with transaction.atomic():
        abandon_task(task)
        at_once(remove)
    assert webhook.deliveries.count() == 1
