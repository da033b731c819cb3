"""The option no_sanity_check became on by default: tasks from before ran without it."""

from django.db import migrations

NAME = "no_sanity_check"


def tell_what_was_meant(apps, schema_editor):
    """What a task does not say is the default, so it has to say what the default was."""
    tasks = apps.get_model("tasks", "Task").objects
    for task in tasks.only("pk", "options").iterator(chunk_size=500):
        if isinstance(task.options, dict) and NAME not in task.options:
            options = {**task.options, NAME: False}
            tasks.filter(pk=task.pk).update(options=options)


class Migration(migrations.Migration):
    dependencies = [("tasks", "0002_plans_inputs_option_files")]

    operations = [migrations.RunPython(tell_what_was_meant, migrations.RunPython.noop)]
