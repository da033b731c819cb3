"""Nothing reads or writes the column any more. A later release drops it: servers of the release
before this one may still run beside this one."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0007_pulse_from_before'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='worker', name='last_seen_at'),
            ],
        ),
    ]
