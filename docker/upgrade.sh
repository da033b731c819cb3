#!/bin/sh
# Brings the site to what lies here (git pull, or VERSION=... for images from elsewhere) without a
# moment in which nobody serves. Migrations only add, so the old programs go on beside them; then
# one web server after the other is replaced, each only when the one before is healthy. Replaced also
# if nothing but a secret is new. The one proxy is restarted if its image changed: that takes a second.
set -eu
cd "$(dirname "$0")"
compose() { docker compose "$@"; }

if [ "${PULL:-}" ]; then compose pull; else compose build; fi
compose run --rm --no-deps migrate
for part in web-1 web-2 dispatch actors sweep; do
    echo "replacing $part"
    compose up -d --no-deps --force-recreate --wait "$part"
done
compose up -d --no-deps --wait proxy
