"""Rename the model `Pulse` to `LastHeartbeat`; its table keeps its name, so the schema does not change."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('workers', '0009_scripts_allowed'),
    ]

    operations = [
        migrations.AlterModelTable(name='pulse', table='workers_pulse'),
        migrations.RenameModel(old_name='Pulse', new_name='LastHeartbeat'),
        migrations.AlterField(
            model_name='lastheartbeat',
            name='worker',
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                primary_key=True,
                related_name='last_heartbeat',
                serialize=False,
                to='workers.worker',
            ),
        ),
    ]
