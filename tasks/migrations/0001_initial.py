import django.db.models.deletion
import tasks.models
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '__first__'),
        ('workers', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Mark',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='EndTally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('outcome', models.CharField(max_length=12)),
                ('reason', models.CharField(max_length=20)),
                ('number', models.PositiveBigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('outcome', 'reason'), name='end_tally')],
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('runtime_version', models.CharField(max_length=40, verbose_name='MegEngine version')),
                ('kind', models.CharField(choices=[('model', 'model'), ('script', 'script')], db_default='model', default='model', max_length=6, verbose_name='kind')),
                ('script', models.JSONField(blank=True, null=True, verbose_name='script')),
                ('pairing', models.JSONField(blank=True, null=True, verbose_name='paired comparison')),
                ('options', models.JSONField(default=dict, verbose_name='options')),
                ('plan', models.JSONField(default=tasks.models.quick_plan, verbose_name='measuring plan')),
                ('seed', models.PositiveBigIntegerField(default=0, verbose_name='seed')),
                ('inputs', models.JSONField(blank=True, default=list, verbose_name='inputs')),
                ('target', models.JSONField(blank=True, null=True, verbose_name='any device with')),
                ('priority', models.SmallIntegerField(default=0, verbose_name='priority')),
                ('purpose', models.CharField(choices=[('user', 'user’s task'), ('health', 'health check')], default='user', max_length=6)),
                ('title', models.CharField(blank=True, default='', max_length=200, verbose_name='title')),
                ('time_limit_s', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('timeout_s', models.PositiveIntegerField(verbose_name='time limit (s)')),
                ('state', models.CharField(choices=[('initiated', 'initiated'), ('waiting', 'waiting'), ('assigned', 'assigned'), ('running', 'running'), ('cancelling', 'cancelling'), ('processing', 'processing'), ('finished', 'finished')], default='initiated', max_length=12, verbose_name='state')),
                ('outcome', models.CharField(blank=True, choices=[('succeeded', 'succeeded'), ('failed', 'failed'), ('cancelled', 'cancelled'), ('lost', 'lost')], default='', max_length=12, verbose_name='outcome')),
                ('reason', models.CharField(blank=True, default='', max_length=40, verbose_name='reason')),
                ('notes', models.JSONField(blank=True, default=list, verbose_name='notes')),
                ('detail', models.CharField(blank=True, default='', max_length=1000, verbose_name='detail')),
                ('keeps_files', models.BooleanField(default=False, verbose_name='files are kept')),
                ('traceparent', models.CharField(blank=True, default='', editable=False, max_length=55)),
                ('event_seq', models.PositiveIntegerField(default=0, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('updated_at', models.DateTimeField(auto_now=True, verbose_name='updated')),
                ('submitted_at', models.DateTimeField(null=True, verbose_name='submitted')),
                ('finished_at', models.DateTimeField(null=True, verbose_name='finished')),
                ('upload_deadline_at', models.DateTimeField(null=True)),
                ('queue_deadline_at', models.DateTimeField(null=True)),
                ('processing_deadline_at', models.DateTimeField(null=True)),
                ('hinted_at', models.DateTimeField(null=True)),
                ('not_before_at', models.DateTimeField(null=True)),
                ('copied_from', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='copies', to='tasks.task')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='workers.worker', verbose_name='device')),
            ],
            options={
                'verbose_name': 'task',
                'verbose_name_plural': 'tasks',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['state', 'upload_deadline_at'], name='task_upload_deadline'), models.Index(fields=['state', 'queue_deadline_at'], name='task_queue_deadline'), models.Index(fields=['owner', '-id'], name='task_of_owner'), models.Index(fields=['worker', 'state', 'submitted_at'], name='task_queue'), models.Index(fields=['owner', 'state', 'outcome', '-id'], name='task_of_owner_as'), models.Index(fields=['state', 'outcome', '-id'], name='task_as'), models.Index(fields=['worker', '-id'], name='task_of_worker'), models.Index(fields=['owner', 'worker', '-id'], name='task_of_owner_there'), models.Index(fields=['created_at'], name='task_created'), models.Index(fields=['worker', 'state', 'owner', 'priority', 'submitted_at'], name='task_turns'), models.Index(condition=models.Q(('target__isnull', False)), fields=['state', 'submitted_at'], name='task_with_target')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('state', 'finished'), models.Q(('outcome', ''), _negated=True)), models.Q(models.Q(('state', 'finished'), _negated=True), ('outcome', '')), _connector='OR'), name='task_outcome_iff_finished'), models.CheckConstraint(condition=models.Q(models.Q(('kind', 'script'), ('script__isnull', False), ('pairing__isnull', True)), models.Q(('kind', 'model'), ('script__isnull', True)), _connector='OR'), name='task_script_iff_kind')],
            },
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('request_sha256', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('task', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tasks.task')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'key'), name='idempotency_key_of_user')],
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveSmallIntegerField()),
                ('slot', models.PositiveSmallIntegerField()),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('accepted_at', models.DateTimeField(null=True)),
                ('started_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('lease_expires_at', models.DateTimeField()),
                ('command', models.TextField(blank=True, default='')),
                ('download_s', models.FloatField(null=True)),
                ('run_s', models.FloatField(null=True)),
                ('host_memory_bytes', models.BigIntegerField(null=True)),
                ('gpu_memory_bytes', models.BigIntegerField(null=True)),
                ('environment', models.JSONField(db_default={}, default=dict, editable=False)),
                ('passes', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('passes_done', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('enough_at', models.DateTimeField(null=True)),
                ('slowest', models.JSONField(editable=False, null=True)),
                ('latency', models.JSONField(editable=False, null=True)),
                ('verdicts', models.JSONField(db_default=[], default=list, editable=False)),
                ('exit_code', models.IntegerField(null=True)),
                ('end_reason', models.CharField(blank=True, default='', max_length=20)),
                ('notes', models.JSONField(blank=True, default=list)),
                ('detail', models.CharField(blank=True, default='', max_length=1000)),
                ('log_end', models.TextField(blank=True, db_default='', default='')),
                ('log_removed_at', models.DateTimeField(null=True)),
                ('log_kept_days', models.PositiveSmallIntegerField(null=True)),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='attempts', to='workers.worker')),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='tasks.task')),
            ],
            options={
                'ordering': ['number'],
                'indexes': [models.Index(condition=models.Q(('ended_at', None)), fields=['lease_expires_at'], name='attempt_lease'), models.Index(fields=['worker', 'ended_at'], name='attempt_of_worker'), models.Index(fields=['ended_at'], name='attempt_ended')],
                'constraints': [models.UniqueConstraint(fields=('task', 'number'), name='attempt_number'), models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('worker', 'slot'), name='one_live_attempt_per_slot'), models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('task',), name='one_live_attempt_per_task')],
            },
        ),
        migrations.CreateModel(
            name='TaskEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.PositiveIntegerField()),
                ('kind', models.CharField(max_length=40)),
                ('data', models.JSONField(default=dict)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='tasks.task')),
            ],
            options={
                'ordering': ['seq'],
                'constraints': [models.UniqueConstraint(fields=('task', 'seq'), name='task_event_seq')],
            },
        ),
        migrations.CreateModel(
            name='TaskFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('size_bytes', models.PositiveBigIntegerField(verbose_name='size')),
                ('md5', models.CharField(blank=True, max_length=40, verbose_name='MD5')),
                ('part_bytes', models.PositiveBigIntegerField(default=0)),
                ('etag', models.CharField(blank=True, default='', max_length=100)),
                ('copy', models.CharField(blank=True, db_default='', default='', editable=False, max_length=16)),
                ('upload_removal_at', models.DateTimeField(editable=False, null=True)),
                ('kind', models.CharField(choices=[('model', 'model'), ('data', 'data'), ('option', 'option’s file')], max_length=6)),
                ('arm', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('position', models.PositiveSmallIntegerField(default=0)),
                ('input', models.CharField(blank=True, max_length=300, verbose_name='input variable')),
                ('option', models.CharField(blank=True, default='', max_length=60, verbose_name='option')),
                ('name', models.CharField(max_length=300, verbose_name='file name')),
                ('sha256', models.CharField(blank=True, default='', max_length=64, verbose_name='SHA-256')),
                ('arrays', models.JSONField(blank=True, default=list)),
                ('stored_at', models.DateTimeField(null=True)),
                ('purged_at', models.DateTimeField(null=True)),
                ('kept_days', models.PositiveSmallIntegerField(null=True)),
                ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='tasks.task')),
            ],
            options={
                'ordering': ['arm', models.Case(models.When(kind='model', then=models.Value(0)), models.When(kind='data', then=models.Value(1)), default=2), 'position', 'pk'],
                'indexes': [models.Index(condition=models.Q(('sha256', ''), _negated=True), fields=['md5', 'size_bytes'], name='file_by_content'), models.Index(condition=models.Q(('upload_removal_at__isnull', False)), fields=['upload_removal_at'], name='file_upload_removal')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('kind', 'model')), fields=('task', 'arm'), name='one_model_per_task'), models.UniqueConstraint(condition=models.Q(('kind', 'data'), models.Q(('input', ''), _negated=True)), fields=('task', 'arm', 'input'), name='one_file_per_input'), models.UniqueConstraint(condition=models.Q(('kind', 'option')), fields=('task', 'arm', 'option'), name='one_file_per_option')],
            },
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('md5', models.CharField(max_length=32, verbose_name='MD5')),
                ('is_stored', models.BooleanField(default=True)),
                ('removed_at', models.DateTimeField(null=True)),
                ('kept_days', models.PositiveSmallIntegerField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='tasks.attempt')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('attempt', 'name'), name='artifact_name')],
            },
        ),
        migrations.CreateModel(
            name='LogChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.PositiveIntegerField()),
                ('offset', models.PositiveBigIntegerField()),
                ('size', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('attempt', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='log', to='tasks.attempt')),
            ],
            options={
                'ordering': ['id'],
                'constraints': [models.UniqueConstraint(fields=('attempt', 'seq'), name='log_chunk_seq')],
            },
        ),
        migrations.CreateModel(
            name='Baseline',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model_name', models.CharField(max_length=300)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='baseline', to='tasks.task')),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='workers.worker')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'worker', 'model_name'), name='one_baseline_per_model')],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, verbose_name='name')),
                ('query', models.CharField(max_length=1000)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'saved view',
                'verbose_name_plural': 'saved views',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='saved_view_name')],
            },
        ),
        migrations.CreateModel(
            name='OptionPreset',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40, verbose_name='name')),
                ('options', models.JSONField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='option_presets', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'preset of options',
                'verbose_name_plural': 'presets of options',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='option_preset_name')],
            },
        ),
    ]
