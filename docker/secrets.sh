#!/bin/sh
# Create the missing secrets; existing ones are kept. Containers read them as several users, so the
# files are readable by all, and the folder only by its owner.
set -eu
cd "$(dirname "$0")"
folder=${SECRETS:-secrets}
mkdir -p "$folder"
chmod 0700 "$folder"
random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
make() { # NAME TEXT
    [ -e "$folder/$1" ] && return
    (umask 022 && printf '%s\n' "$2" >"$folder/$1.new" && mv "$folder/$1.new" "$folder/$1")
    echo "created $folder/$1"
}
make secret_key "$(random 40)"
make secret_key_fallbacks ""
make metrics_token "$(random 20)"
make postgres_password "$(random 24)"
make database_url "postgres://webprofile:$(cat "$folder/postgres_password")@postgres:5432/webprofile"
make s3_access_key_id "$(random 10)"
make s3_secret_access_key "$(random 20)"
password=$(random 24)
make rabbitmq_password "$password"
make rabbitmq_user "default_user = webprofile
default_pass = $(cat "$folder/rabbitmq_password")"
# BROKER in docker/.env selects one
make broker_redis "redis://redis:6379/0"
make broker_rabbitmq "amqp://webprofile:$(cat "$folder/rabbitmq_password")@rabbitmq:5672/"
# to be edited: the mail server (smtp+tls://user:password@mail.example.org:587), the code of a device
make email_url "consolemail://"
make enrol_code ""
