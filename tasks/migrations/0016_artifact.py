"""The model `Artifact` comes from the app `profiles`, with its table.

Its content type comes along, and with it permissions and entries of the audit log.
"""

from collections.abc import Callable

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def rename_content_type(old: str, new: str) -> Callable[[Apps, BaseDatabaseSchemaEditor], None]:
    def rename(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
        content_types = apps.get_model("contenttypes", "ContentType").objects.using(
            editor.connection.alias
        )
        content_types.filter(app_label=old, model="artifact").update(app_label=new)

    return rename


class Migration(migrations.Migration):
    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("profiles", "0011_artifact_to_tasks"),
        ("tasks", "0015_passes_of_attempts"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Artifact",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("name", models.CharField(max_length=100)),
                        ("size_bytes", models.PositiveBigIntegerField()),
                        ("md5", models.CharField(max_length=32, verbose_name="MD5")),
                        ("is_stored", models.BooleanField(default=True)),
                        ("removed_at", models.DateTimeField(null=True)),
                        ("kept_days", models.PositiveSmallIntegerField(null=True)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        (
                            "attempt",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="artifacts",
                                to="tasks.attempt",
                            ),
                        ),
                    ],
                    options={
                        "db_table": "profiles_artifact",
                        "constraints": [
                            models.UniqueConstraint(
                                fields=("attempt", "name"), name="artifact_name"
                            )
                        ],
                    },
                ),
            ]
        ),
        migrations.RunPython(
            rename_content_type("profiles", "tasks"), rename_content_type("tasks", "profiles")
        ),
    ]
