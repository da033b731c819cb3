from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workers', '0002_runtime_capabilities'),
    ]

    operations = [
        migrations.AddField(
            model_name='runtime',
            name='roofs',
            field=models.JSONField(blank=True, default=list, verbose_name='measured limits'),
        ),
    ]
