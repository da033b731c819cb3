#!/bin/sh
# What the image adds to the source, which takes no network: translations, static files with hashes.
# The keys are for this one command, which reads settings but asks nobody.
set -eu
cd "$(dirname "$0")/../.."
pybabel -q compile -i webprofile/locale/zh_Hans/LC_MESSAGES/django.po \
    -o webprofile/locale/zh_Hans/LC_MESSAGES/django.mo
key=$(python -c 'import secrets; print(secrets.token_hex(40))')
SECRET_KEY=$key S3_ACCESS_KEY_ID=none S3_SECRET_ACCESS_KEY=none \
    DJANGO_SETTINGS_MODULE=webprofile.settings.prod \
    python manage.py collectstatic --noinput -v 0
# so that nothing is compiled in a container whose files nobody may write
python -m compileall -q accounts agent profiles tasks webprofile workers
