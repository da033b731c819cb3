#!/bin/sh
# Upgrade the site to the working tree (git pull), or to the images of VERSION=..., without downtime.
# Migrations only add, so the old programs keep working; then the web servers are replaced one by
# one, each after the previous one is healthy. Containers are replaced even if only a secret changed.
# The proxy is restarted if its image changed, which takes a second. The stores keep running: see
# docs/deploy.md.
set -eu
cd "$(dirname "$0")"
compose() { docker compose "$@"; }

if [ "${PULL:-}" ]; then
    compose pull
    pull_or_build=pull
else
    compose build
    pull_or_build=build
fi
# no service that is replaced below uses this image
compose --profile backup "$pull_or_build" backup
compose run --rm --no-deps storage
compose run --rm --no-deps migrate
for part in web-1 web-2 dispatch actors sweep; do
    echo "replacing $part"
    compose up -d --no-deps --force-recreate --wait "$part"
done
compose up -d --no-deps --wait proxy
