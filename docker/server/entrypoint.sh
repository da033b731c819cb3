#!/bin/sh
# Start one part of the site: web, dispatch, actors, sweep; or run a step: migrate, storage, manage.
# `health PART` checks whether the part works. Tests start the site with this script, too.
set -eu
cd "$(dirname "$0")/../.."
: "${DJANGO_SETTINGS_MODULE:=webprofile.settings.prod}"
: "${RUN_FOLDER:=/tmp}"
export DJANGO_SETTINGS_MODULE PYTHONUNBUFFERED=1

part=${1:-web}
[ $# -eq 0 ] || shift

remember() { # store the process id, which stays the same after exec
    printf '%s\n' "$$" >"$RUN_FOLDER/$1.pid"
}

alive() {
    [ -r "$RUN_FOLDER/$1.pid" ] && kill -0 "$(cat "$RUN_FOLDER/$1.pid")" 2>/dev/null
}

case $part in
web)
    remember web
    # only Django evaluates X-Forwarded-For (TRUSTED_PROXY_COUNT)
    exec python -m webprofile.web webprofile.asgi:application \
        --host "${WEB_HOST:-0.0.0.0}" --port "${WEB_PORT:-8000}" --no-proxy-headers \
        --no-access-log --no-server-header --lifespan off --ws-max-size 262144 \
        --timeout-graceful-shutdown "${WEB_GRACE_S:-20}" "$@"
    ;;
dispatch)
    remember dispatch
    exec python manage.py rundramatiq --skip-checks --processes 1 --threads 2 \
        --worker-shutdown-timeout 5000 --queues dispatch "$@"
    ;;
actors)
    remember actors
    # each queue has its own consumer, so only the queues of our actors
    queues=$(python -c 'from webprofile.operations.devserver.parts import QUEUES; print(*QUEUES)')
    # shellcheck disable=SC2086
    exec python manage.py rundramatiq --skip-checks --processes "${ACTOR_PROCESSES:-1}" \
        --threads "${ACTOR_THREADS:-2}" --worker-shutdown-timeout 20000 --queues $queues "$@"
    ;;
sweep)
    remember sweep
    # written by an earlier process
    rm -f "$RUN_FOLDER/sweep.alive"
    exec python manage.py sweep --alive "$RUN_FOLDER/sweep.alive" "$@"
    ;;
migrate) exec python manage.py migrate --noinput "$@" ;;
storage) exec python manage.py storage_prepare "$@" ;;
manage) exec python manage.py "$@" ;;
health)
    case ${1:-web} in
    web) exec python docker/server/ask.py ;;
    # the main process ends if one of its actor processes ends; these are its children
    dispatch | actors)
        alive "$1" && [ -n "$(cat "/proc/$(cat "$RUN_FOLDER/$1.pid")/task/"*/children)" ]
        ;;
    # the sweep touches the file after each round, which takes seconds
    sweep) alive sweep && [ -n "$(find "$RUN_FOLDER/sweep.alive" -mmin -2 2>/dev/null)" ] ;;
    *)
        echo "There is no health check of '$1'. Use web, dispatch, actors or sweep." >&2
        exit 2
        ;;
    esac
    ;;
*)
    echo "Unknown part '$part'. Use web, dispatch, actors, sweep, migrate, storage, manage or health." >&2
    exit 2
    ;;
esac
