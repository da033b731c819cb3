from typing import Any

from django.db import migrations


def take_over(apps: Any, schema_editor: Any) -> None:
    Worker, Pulse = apps.get_model('workers', 'Worker'), apps.get_model('workers', 'Pulse')
    seen = Worker.objects.exclude(last_seen_at=None).values_list('pk', 'last_seen_at')
    rows = (Pulse(worker_id=pk, last_seen_at=at) for pk, at in seen.iterator())
    Pulse.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0006_pulse'),
    ]

    operations = [
        migrations.RunPython(take_over, migrations.RunPython.noop),
    ]
