import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '__first__'),
        ('tasks', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='OpenedFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('size_bytes', models.PositiveBigIntegerField(verbose_name='size')),
                ('md5', models.CharField(blank=True, max_length=40, verbose_name='MD5')),
                ('part_bytes', models.PositiveBigIntegerField(default=0)),
                ('etag', models.CharField(blank=True, default='', max_length=100)),
                ('copy', models.CharField(blank=True, db_default='', default='', editable=False, max_length=16)),
                ('upload_removal_at', models.DateTimeField(editable=False, null=True)),
                ('number', models.PositiveSmallIntegerField()),
                ('kind', models.CharField(choices=[('profile', 'profiled pass'), ('trace', 'trace'), ('memory_flow', 'memory flow'), ('static_memory', 'static memory'), ('graph', 'graph')], db_default='profile', default='profile', max_length=13, verbose_name='kind')),
                ('name', models.CharField(max_length=255, verbose_name='file name')),
            ],
            options={
                'verbose_name': 'file',
                'ordering': ['number'],
                'indexes': [models.Index(condition=models.Q(('upload_removal_at__isnull', False)), fields=['upload_removal_at'], name='opened_upload_removal')],
            },
        ),
        migrations.CreateModel(
            name='RemovedObjects',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('prefix', models.CharField(max_length=100, unique=True)),
                ('is_last', models.BooleanField(default=False)),
                ('due_at', models.DateTimeField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='PairedResult',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seed', models.PositiveBigIntegerField()),
                ('measuring_s', models.FloatField()),
                ('arms', models.JSONField(default=list)),
                ('pairs', models.JSONField(default=list)),
                ('verdicts', models.JSONField(default=list)),
                ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='paired', to='tasks.attempt')),
            ],
            options={
                'verbose_name': 'paired comparison',
                'verbose_name_plural': 'paired comparisons',
            },
        ),
        migrations.CreateModel(
            name='AttemptMeasurement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('iterations', models.PositiveIntegerField(default=0, verbose_name='iterations')),
                ('median_ms', models.FloatField(null=True, verbose_name='median of an iteration (ms)')),
                ('mean_ms', models.FloatField(null=True, verbose_name='mean of an iteration (ms)')),
                ('p90_ms', models.FloatField(null=True)),
                ('p99_ms', models.FloatField(null=True)),
                ('min_ms', models.FloatField(null=True)),
                ('max_ms', models.FloatField(null=True)),
                ('histogram', models.JSONField(default=dict)),
                ('steady_state', models.JSONField(default=dict)),
                ('modes', models.JSONField(default=list)),
                ('interval', models.JSONField(default=dict)),
                ('cv', models.FloatField(null=True)),
                ('profiled_iterations', models.PositiveIntegerField(default=0)),
                ('profiled_median_ms', models.FloatField(null=True)),
                ('overhead', models.FloatField(null=True, verbose_name='profiling overhead')),
                ('device_totals_s', models.JSONField(default=list)),
                ('host_totals_s', models.JSONField(db_default=[], default=list)),
                ('device_cv', models.FloatField(null=True)),
                ('start_s', models.FloatField(null=True, verbose_name='start-up (s)')),
                ('load_ms', models.FloatField(null=True, verbose_name='load time (ms)')),
                ('plan', models.JSONField(default=dict)),
                ('passes', models.JSONField(default=list)),
                ('disturbances', models.JSONField(default=list)),
                ('other_load', models.JSONField(db_default={}, default=dict)),
                ('canary', models.JSONField(db_default={}, default=dict)),
                ('notes', models.JSONField(default=list)),
                ('gate', models.JSONField(default=dict)),
                ('device', models.JSONField(default=dict)),
                ('derived_version', models.PositiveSmallIntegerField(default=0)),
                ('built_at', models.DateTimeField(auto_now=True)),
                ('attempt', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='measurement', to='tasks.attempt')),
            ],
            options={
                'verbose_name': 'measurement',
                'verbose_name_plural': 'measurements',
            },
        ),
        migrations.CreateModel(
            name='PartedUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('object_key', models.CharField(max_length=200, unique=True)),
                ('upload_id', models.CharField(max_length=1000)),
                ('md5', models.CharField(blank=True, default='', max_length=40, verbose_name='MD5')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('opened_file', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='profiles.openedfile')),
                ('task_file', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='tasks.taskfile')),
            ],
        ),
        migrations.CreateModel(
            name='ProfileUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255, verbose_name='name')),
                ('size_bytes', models.PositiveBigIntegerField(verbose_name='size')),
                ('state', models.CharField(choices=[('initiated', 'initiated'), ('processing', 'processing'), ('ready', 'ready'), ('failed', 'failed'), ('deleted', 'deleted')], default='initiated', max_length=10, verbose_name='state')),
                ('problem', models.CharField(blank=True, max_length=40)),
                ('problem_detail', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('deadline_at', models.DateTimeField(null=True)),
                ('hinted_at', models.DateTimeField(null=True)),
                ('claimed_until', models.DateTimeField(null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='profile_uploads', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'verbose_name': 'imported profile',
                'verbose_name_plural': 'imported profiles',
                'ordering': ['-pk'],
                'indexes': [models.Index(fields=['state', 'created_at'], name='upload_state_created'), models.Index(fields=['owner', '-id'], name='upload_of_owner')],
            },
        ),
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('operators', models.PositiveIntegerField(verbose_name='operators')),
                ('device_total_s', models.FloatField(null=True, verbose_name='total device time (s)')),
                ('host_total_s', models.FloatField(null=True, verbose_name='total host time (s)')),
                ('iterations', models.PositiveIntegerField(null=True, verbose_name='iterations')),
                ('mean_ms', models.FloatField(null=True, verbose_name='mean of an iteration (ms)')),
                ('min_ms', models.FloatField(null=True)),
                ('max_ms', models.FloatField(null=True)),
                ('warnings', models.JSONField(default=list)),
                ('derived_version', models.PositiveSmallIntegerField(default=0)),
                ('problem', models.CharField(blank=True, default='', max_length=40)),
                ('rebuild_hinted_at', models.DateTimeField(null=True)),
                ('built_at', models.DateTimeField(auto_now=True)),
                ('attempt', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='profile', to='tasks.attempt')),
                ('upload', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='profile', to='profiles.profileupload')),
            ],
            options={
                'verbose_name': 'profile',
                'verbose_name_plural': 'profiles',
                'indexes': [models.Index(condition=models.Q(('rebuild_hinted_at__isnull', False)), fields=['rebuild_hinted_at'], name='profile_rebuild')],
                'constraints': [models.CheckConstraint(condition=models.Q(('attempt__isnull', True), ('upload__isnull', True), _connector='XOR'), name='profile_of_one_source')],
            },
        ),
        migrations.AddField(
            model_name='openedfile',
            name='upload',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='profiles.profileupload'),
        ),
        migrations.CreateModel(
            name='ReadingTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateTimeField()),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Share',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('task', 'task'), ('import', 'imported profile'), ('comparison', 'comparison')], max_length=10, verbose_name='kind')),
                ('ids', models.JSONField(default=list)),
                ('name', models.CharField(max_length=300, verbose_name='name')),
                ('parts', models.JSONField(default=list, verbose_name='shows also')),
                ('prefix', models.CharField(max_length=16)),
                ('sha256', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('expires_at', models.DateTimeField(verbose_name='expires')),
                ('revoked_at', models.DateTimeField(null=True, verbose_name='revoked')),
                ('first_viewed_at', models.DateTimeField(null=True, verbose_name='first viewed')),
                ('last_viewed_at', models.DateTimeField(null=True, verbose_name='last viewed')),
                ('views', models.PositiveIntegerField(default=0, verbose_name='views')),
                ('creator', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='creator')),
            ],
            options={
                'verbose_name': 'share link',
                'verbose_name_plural': 'share links',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['creator', '-id'], name='share_of_creator')],
            },
        ),
        migrations.AddConstraint(
            model_name='openedfile',
            constraint=models.UniqueConstraint(fields=('upload', 'number'), name='opened_file_number'),
        ),
    ]
