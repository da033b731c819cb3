from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("profiles", "0015_confirmed_copies")]
    operations = [
        migrations.RenameField("attemptmeasurement", "contaminations", "disturbances"),
    ]
