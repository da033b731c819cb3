import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def leave_room(apps, schema_editor):
    """Leave half of each page free, so that a new version of a row fits beside the old one.

    No index then changes (PostgreSQL calls it HOT), and nothing is left for a vacuum.
    """
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute('ALTER TABLE workers_pulse SET (fillfactor = 50)')


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '__first__'),
        # not needed, but these migrations take four times as long when all models of the site exist
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
        ('token_blacklist', '0013_alter_blacklistedtoken_options_and_more'),
        ('usersessions', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, unique=True, validators=[django.core.validators.RegexValidator('^[\\w.-]+$', 'Letters, digits, dots, hyphens and underscores.')], verbose_name='name')),
                ('is_public', models.BooleanField(default=True, help_text='If selected, every user can choose this device; otherwise only users with a grant.', verbose_name='public')),
                ('is_enabled', models.BooleanField(default=True, help_text='A disabled device gets no new tasks.', verbose_name='enabled')),
                ('disabled_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('slots', models.PositiveSmallIntegerField(default=1, help_text='Number of tasks that may run at the same time. If several tasks run at the same time, their times are unreliable.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(16)], verbose_name='slots')),
                ('allows_scripts', models.BooleanField(db_default=False, default=False, editable=False, verbose_name='runs scripts')),
                ('offers_scripts', models.BooleanField(db_default=False, default=False, editable=False)),
                ('labels', models.JSONField(blank=True, default=dict, verbose_name='labels')),
                ('held_reason', models.CharField(blank=True, editable=False, max_length=300, verbose_name='quarantined')),
                ('held_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='quarantined since')),
                ('retired_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='retired')),
                ('facts', models.JSONField(blank=True, default=dict, editable=False, verbose_name='facts')),
                ('agent_version', models.CharField(blank=True, editable=False, max_length=32, verbose_name='agent version')),
                ('changed_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('may_lack_scatter', models.BooleanField(db_default=True, default=True, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='registered')),
            ],
            options={
                'verbose_name': 'device',
                'verbose_name_plural': 'devices',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Grant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'grant',
                'verbose_name_plural': 'grants',
            },
        ),
        migrations.CreateModel(
            name='LastHeartbeat',
            fields=[
                ('worker', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='last_heartbeat', serialize=False, to='workers.worker')),
                ('last_seen_at', models.DateTimeField(verbose_name='last seen')),
            ],
            options={
                'db_table': 'workers_pulse',
            },
        ),
        migrations.AddField(
            model_name='worker',
            name='granted',
            field=models.ManyToManyField(blank=True, related_name='granted_workers', through='workers.Grant', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='grant',
            name='worker',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='workers.worker'),
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60, unique=True, validators=[django.core.validators.RegexValidator('^[\\w.-]+$', 'Letters, digits, dots, hyphens and underscores.')], verbose_name='name')),
                ('description', models.CharField(blank=True, max_length=300, verbose_name='description')),
                ('workers', models.ManyToManyField(blank=True, related_name='pools', to='workers.worker', verbose_name='devices')),
            ],
            options={
                'verbose_name': 'pool',
                'verbose_name_plural': 'pools',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Runtime',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.CharField(max_length=40, verbose_name='MegEngine version')),
                ('kind', models.CharField(choices=[('wheel', 'Python package'), ('binary', 'compiled load_and_run')], max_length=8, verbose_name='kind')),
                ('python', models.CharField(blank=True, max_length=40, verbose_name='Python')),
                ('problem', models.CharField(blank=True, max_length=40, verbose_name='problem')),
                ('problem_values', models.JSONField(blank=True, default=dict, editable=False)),
                ('flags', models.JSONField(blank=True, default=list, verbose_name='known options')),
                ('builds', models.JSONField(blank=True, default=list, verbose_name='built with')),
                ('libraries', models.JSONField(blank=True, default=list, verbose_name='operator libraries')),
                ('roofs', models.JSONField(blank=True, default=list, verbose_name='measured limits')),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runtimes', to='workers.worker')),
            ],
            options={
                'verbose_name': 'runtime',
                'verbose_name_plural': 'runtimes',
                'ordering': ['version'],
                'constraints': [models.UniqueConstraint(fields=('worker', 'version'), name='runtime_worker_version')],
            },
        ),
        migrations.CreateModel(
            name='WorkerSecret',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('code', 'enrolment code'), ('token', 'token')], max_length=5)),
                ('sha256', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='secrets', to='workers.worker')),
            ],
            options={
                'verbose_name': 'secret',
                'verbose_name_plural': 'secrets',
            },
        ),
        migrations.CreateModel(
            name='HealthCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('runtime_version', models.CharField(max_length=40, verbose_name='MegEngine version')),
                ('cause', models.CharField(choices=[('schedule', 'on schedule'), ('failure', 'after failures'), ('asked', 'requested'), ('scatter', 'run-to-run variance'), ('aa', 'A/A run')], max_length=8, verbose_name='cause')),
                ('result', models.CharField(blank=True, choices=[('', 'in progress'), ('passed', 'passed'), ('failed', 'failed'), ('abandoned', 'abandoned')], default='', max_length=9, verbose_name='result')),
                ('task_id', models.PositiveBigIntegerField(blank=True, editable=False, null=True)),
                ('reason', models.CharField(blank=True, max_length=40, verbose_name='reason')),
                ('notes', models.JSONField(blank=True, default=list, verbose_name='notes')),
                ('detail', models.CharField(blank=True, max_length=1000, verbose_name='detail')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='started')),
                ('ended_at', models.DateTimeField(blank=True, null=True, verbose_name='ended')),
                ('median_s', models.FloatField(blank=True, null=True, verbose_name='median')),
                ('environment', models.CharField(blank=True, db_default='', default='', editable=False, max_length=40)),
                ('samples', models.JSONField(db_default={}, default=dict, editable=False)),
                ('worker', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='health_checks', to='workers.worker')),
            ],
            options={
                'verbose_name': 'health check',
                'verbose_name_plural': 'health checks',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['worker', '-id'], name='health_check_of_worker')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('result', '')), fields=('worker',), name='one_pending_health_check')],
            },
        ),
        migrations.AddConstraint(
            model_name='grant',
            constraint=models.UniqueConstraint(fields=('worker', 'user'), name='grant_worker_user'),
        ),
        migrations.RunPython(leave_room, migrations.RunPython.noop),
    ]
