#!/bin/sh
# Build steps without a network: compile translations, collect static files with hashes in their names.
# The keys are dummies for collectstatic, which reads the settings but connects to nothing.
set -eu
cd "$(dirname "$0")/../.."
pybabel -q compile -i webprofile/locale/zh_Hans/LC_MESSAGES/django.po \
    -o webprofile/locale/zh_Hans/LC_MESSAGES/django.mo
key=$(python -c 'import secrets; print(secrets.token_hex(40))')
SECRET_KEY=$key S3_ACCESS_KEY_ID=none S3_SECRET_ACCESS_KEY=none \
    DJANGO_SETTINGS_MODULE=webprofile.settings.prod \
    python manage.py collectstatic --noinput -v 0
# containers have a read-only file system, so modules are compiled here
python -m compileall -q accounts agent profiles tasks webprofile workers
