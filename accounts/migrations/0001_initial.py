import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('email', models.EmailField(max_length=254, unique=True, verbose_name='e-mail')),
                ('is_staff', models.BooleanField(default=False, help_text='May open the administration pages.', verbose_name='administrator')),
                ('is_active', models.BooleanField(default=True, help_text='Unselect this instead of deleting a user.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='joined')),
                ('last_seen_at', models.DateTimeField(editable=False, null=True)),
                ('language', models.CharField(blank=True, default='', max_length=10, verbose_name='language')),
                ('time_zone', models.CharField(blank=True, default='', max_length=64, verbose_name='time zone')),
                ('theme', models.CharField(blank=True, choices=[('', 'System setting'), ('light', 'light'), ('dark', 'dark')], default='', max_length=5, verbose_name='colours')),
                ('task_limit', models.PositiveIntegerField(blank=True, help_text='Maximum number of waiting and running tasks; empty for the site’s default.', null=True, verbose_name='task limit')),
                ('storage_limit_gib', models.PositiveIntegerField(blank=True, help_text='For the files and results of tasks; empty for the site’s limit.', null=True, verbose_name='storage (GiB)')),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('email'), name='user_email_ignoring_case')],
            },
        ),
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, verbose_name='name')),
                ('prefix', models.CharField(max_length=16)),
                ('sha256', models.CharField(max_length=64, unique=True)),
                ('scopes', models.JSONField(default=list, verbose_name='permissions')),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('expires_at', models.DateTimeField(verbose_name='expires')),
                ('last_used_at', models.DateTimeField(blank=True, null=True, verbose_name='last used')),
                ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='access_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'access token',
                'verbose_name_plural': 'access tokens',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True, verbose_name='date and time')),
                ('actor_email', models.CharField(blank=True, max_length=254, verbose_name='user')),
                ('action', models.CharField(db_index=True, max_length=60, verbose_name='action')),
                ('target_type', models.CharField(max_length=30)),
                ('target_id', models.CharField(blank=True, max_length=40)),
                ('target_name', models.CharField(blank=True, max_length=254, verbose_name='object')),
                ('before', models.JSONField(default=dict, verbose_name='before')),
                ('after', models.JSONField(default=dict, verbose_name='after')),
                ('address', models.GenericIPAddressField(blank=True, null=True, verbose_name='IP address')),
                ('actor', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit log',
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['target_type', 'target_id'], name='audit_of_target')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.CharField(max_length=500, verbose_name='URL')),
                ('events', models.JSONField(default=list, verbose_name='events')),
                ('secret', models.CharField(max_length=300)),
                ('former_secret', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField(auto_now_add=True, verbose_name='created')),
                ('failures', models.PositiveSmallIntegerField(default=0)),
                ('disabled_at', models.DateTimeField(blank=True, null=True, verbose_name='disabled')),
                ('slow_calls', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('rests_until', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'webhook',
                'verbose_name_plural': 'webhooks',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.CharField(max_length=20)),
                ('key', models.CharField(max_length=100)),
                ('data', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('next_at', models.DateTimeField(null=True)),
                ('hinted_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('ended_at', models.DateTimeField(null=True)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('problem', models.CharField(blank=True, default='', max_length=20)),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='accounts.webhook')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('next_at__isnull', False)), fields=['next_at'], name='delivery_due'), models.Index(fields=['created_at'], name='delivery_age')],
                'constraints': [models.UniqueConstraint(fields=('webhook', 'key'), name='delivery_once')],
            },
        ),
    ]
