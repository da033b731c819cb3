#!/bin/sh
# Enrol this device once, with a code from ENROL_CODE_FILE or ENROL_CODE, and run the agent.
# `health` checks whether the agent's process exists, without disturbing a measurement.
set -eu
cd "$(dirname "$0")/../.."
: "${AGENT_HOME:=/var/lib/agent}"
: "${RUN_FOLDER:=/tmp}"
: "${REQUIRE_SANDBOX:=true}"
export PYTHONUNBUFFERED=1
config=$AGENT_HOME/agent.toml

say() { echo "agent: $*" >&2; }

code() {
    if [ -n "${ENROL_CODE_FILE:-}" ]; then
        cat "$ENROL_CODE_FILE"
    else
        printf '%s\n' "${ENROL_CODE:-}"
    fi
}

enrol() {
    code=$(code)
    if [ -z "$code" ] || [ -z "${SERVER:-}" ]; then
        say "this device is not enrolled: set SERVER, and ENROL_CODE_FILE to a file with the code from its page"
        exit 1
    fi
    umask 077
    # write agent.toml atomically: without its first line models would run without a sandbox. --force
    # replaces the files of a start that was killed
    set -- --server "$SERVER" --code "$code" --config "$config.enrolled" --quiet --force
    [ -z "${RUNTIME_PYTHON:-}" ] || set -- "$@" --runtime-python "$RUNTIME_PYTHON"
    [ -z "${RUNTIME_BINARY:-}" ] || set -- "$@" --runtime-binary "$RUNTIME_BINARY"
    # a code can be used only once, so the steps after the enrolment must not fail half-way
    python -m agent enrol "$@"
    { echo "require_sandbox = $REQUIRE_SANDBOX"; cat "$config.enrolled"; } >"$config.new"
    mv "$config.new" "$config"
    rm -f "$config.enrolled"
}

tell_sandbox() { # log the result of the sandbox test that runs before each model, with advice
    said=$(python -m agent doctor --config "$config" | grep '^[a-z]* *sandbox ' || true)
    say "$said"
    case $said in
    ok*) ;;
    *)
        say "bubblewrap needs user namespaces and mounts, which container engines forbid by default." \
            "Allow them for this container (docs/deploy.md, \"The sandbox in a container\")," \
            "run the agent without a container, or set REQUIRE_SANDBOX=false before you enrol it."
        ;;
    esac
}

case ${1:-run} in
run)
    [ -f "$config" ] || enrol
    # without the sandbox there is nothing to test
    [ "$REQUIRE_SANDBOX" = false ] || tell_sandbox
    printf '%s\n' "$$" >"$RUN_FOLDER/agent.pid"
    exec python -m agent run --config "$config"
    ;;
health) kill -0 "$(cat "$RUN_FOLDER/agent.pid")" 2>/dev/null ;;
agent)
    shift
    command=$1
    shift
    exec python -m agent "$command" "$@" --config "$config"
    ;;
*)
    say "unknown command '$1': use run, health or agent COMMAND"
    exit 2
    ;;
esac
