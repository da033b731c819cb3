from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0011_file_parts'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='taskfile',
            index=models.Index(condition=models.Q(('sha256', ''), _negated=True), fields=['md5', 'size_bytes'], name='file_by_content'),
        ),
    ]
