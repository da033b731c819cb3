"""A narrow row for what each heartbeat writes; a later release drops the column of before."""

from typing import Any

from django.db import migrations, models
import django.db.models.deletion


def leave_room(apps: Any, schema_editor: Any) -> None:
    """Half of each page stays free, so that a new version of a row fits beside the old one.

    No index then changes (PostgreSQL calls it HOT), and nothing is left for a vacuum.
    """
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute('ALTER TABLE workers_pulse SET (fillfactor = 50)')


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0005_when_disabled'),
    ]

    operations = [
        migrations.CreateModel(
            name='Pulse',
            fields=[
                ('worker', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='pulse', serialize=False, to='workers.worker')),
                ('last_seen_at', models.DateTimeField(verbose_name='last seen')),
            ],
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
