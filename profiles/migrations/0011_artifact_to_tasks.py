"""The model `Artifact` belongs to the app `tasks`; its table stays."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("profiles", "0010_host_totals")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.DeleteModel(name="Artifact")]
        ),
    ]
