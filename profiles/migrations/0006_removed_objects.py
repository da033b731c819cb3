from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("profiles", "0005_derived_data")]

    operations = [
        migrations.CreateModel(
            name="RemovedObjects",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("prefix", models.CharField(max_length=100, unique=True)),
                ("is_last", models.BooleanField(default=False)),
                ("due_at", models.DateTimeField(db_index=True)),
            ],
        ),
    ]
