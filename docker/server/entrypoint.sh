#!/bin/sh
# Starts one part of the site: web, dispatch, actors, sweep, or a one-time step: migrate, storage, manage.
# `health PART` tells whether it works. The tests start the site by this very script.
set -eu
cd "$(dirname "$0")/../.."
: "${DJANGO_SETTINGS_MODULE:=webprofile.settings.prod}"
: "${RUN_FOLDER:=/tmp}"
export DJANGO_SETTINGS_MODULE PYTHONUNBUFFERED=1

part=${1:-web}
[ $# -eq 0 ] || shift

remember() { # the process keeps its number when it becomes the program
    printf '%s\n' "$$" >"$RUN_FOLDER/$1.pid"
}

alive() {
    [ -r "$RUN_FOLDER/$1.pid" ] && kill -0 "$(cat "$RUN_FOLDER/$1.pid")" 2>/dev/null
}

case $part in
web)
    remember web
    # who a client is, Django tells from X-Forwarded-For and TRUSTED_PROXY_COUNT: one place only
    exec python -m uvicorn webprofile.asgi:application \
        --host "${WEB_HOST:-0.0.0.0}" --port "${WEB_PORT:-8000}" --no-proxy-headers \
        --no-access-log --no-server-header --lifespan off --ws-max-size 262144 \
        --timeout-graceful-shutdown "${WEB_GRACE_S:-20}" "$@"
    ;;
dispatch)
    remember dispatch
    # how long it sleeps at most between two looks at an empty queue of Redis, ms: a task waits for it
    export dramatiq_worker_timeout="${dramatiq_worker_timeout:-70}"
    exec python manage.py rundramatiq --processes 1 --threads 2 \
        --worker-shutdown-timeout 5000 --queues dispatch "$@"
    ;;
actors)
    remember actors
    # each queue costs a look at the broker, so only those that our actors use
    queues=$(python -c 'from webprofile.operations.devserver.parts import QUEUES; print(*QUEUES)')
    # shellcheck disable=SC2086
    exec python manage.py rundramatiq --processes "${ACTOR_PROCESSES:-1}" \
        --threads "${ACTOR_THREADS:-2}" --worker-shutdown-timeout 20000 --queues $queues "$@"
    ;;
sweep)
    remember sweep
    # that of the process before says nothing of this one
    rm -f "$RUN_FOLDER/sweep.alive"
    exec python manage.py sweep --alive "$RUN_FOLDER/sweep.alive" "$@"
    ;;
migrate) exec python manage.py migrate --noinput "$@" ;;
storage) exec python manage.py storage_prepare "$@" ;;
manage) exec python manage.py "$@" ;;
health)
    case ${1:-web} in
    web) exec python docker/server/ask.py ;;
    # the main process ends when a process of its actors does; these are its children
    dispatch | actors)
        alive "$1" && [ -n "$(cat "/proc/$(cat "$RUN_FOLDER/$1.pid")/task/"*/children)" ]
        ;;
    # a round takes seconds; this file is touched after each
    sweep) alive sweep && [ -n "$(find "$RUN_FOLDER/sweep.alive" -mmin -2 2>/dev/null)" ] ;;
    *)
        echo "There is no health of '$1': web, dispatch, actors or sweep." >&2
        exit 2
        ;;
    esac
    ;;
*)
    echo "There is no part '$part': web, dispatch, actors, sweep, migrate, storage, manage or health." >&2
    exit 2
    ;;
esac
