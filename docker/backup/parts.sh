# shellcheck shell=bash
# What backup and restore share: where the rows and the objects are. Nothing secret becomes an
# argument, since arguments can be seen by everybody on the machine.

value() { # NAME: from the environment, or from the file that NAME_FILE names
    local file="$1_FILE"
    if [ -n "${!file:-}" ]; then
        cat "${!file}"
    else
        printf '%s\n' "${!1:-}"
    fi
}

unquoted() { # %40 -> @
    printf '%b' "${1//%/\\x}"
}

use_database() { # libpq reads PG*; the address is the one that the site uses
    local address rest pair
    address=$(value DATABASE_URL)
    if ! [[ $address =~ ^postgres(ql)?://(([^:@/]*)(:([^@/]*))?@)?([^:/?]*)(:([0-9]+))?/([^?]*)(\?(.*))?$ ]]; then
        echo "DATABASE_URL is none of PostgreSQL (postgres://user:password@host:5432/name)." >&2
        exit 1
    fi
    PGUSER=$(unquoted "${BASH_REMATCH[3]}")
    PGPASSWORD=$(unquoted "${BASH_REMATCH[5]}")
    PGHOST=$(unquoted "${BASH_REMATCH[6]}")
    PGPORT=${BASH_REMATCH[8]:-5432}
    PGDATABASE=$(unquoted "${BASH_REMATCH[9]}")
    rest=${BASH_REMATCH[11]:-}
    while [ -n "$rest" ]; do
        pair=${rest%%&*}
        case $pair in
        host=*) PGHOST=$(unquoted "${pair#host=}") ;;
        sslmode=*) export PGSSLMODE=${pair#sslmode=} ;;
        esac
        [[ $rest == *"&"* ]] || break
        rest=${rest#*&}
    done
    export PGUSER PGPASSWORD PGHOST PGPORT PGDATABASE
}

use_storage() { # rclone reads a remote named "bucket" from its environment
    export RCLONE_CONFIG_STORE_TYPE=s3
    export RCLONE_CONFIG_STORE_PROVIDER=${S3_PROVIDER:-Other}
    RCLONE_CONFIG_STORE_ACCESS_KEY_ID=$(value S3_ACCESS_KEY_ID)
    RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY=$(value S3_SECRET_ACCESS_KEY)
    export RCLONE_CONFIG_STORE_ACCESS_KEY_ID RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY
    # without keys a role, as for the site
    [ -n "$RCLONE_CONFIG_STORE_ACCESS_KEY_ID" ] || export RCLONE_CONFIG_STORE_ENV_AUTH=true
    [ -z "${S3_CA_BUNDLE:-}" ] || export RCLONE_CA_CERT=$S3_CA_BUNDLE
    export RCLONE_CONFIG_STORE_ENDPOINT=$S3_ENDPOINT_URL
    export RCLONE_CONFIG_STORE_REGION=${S3_REGION:-us-east-1}
    export RCLONE_CONFIG_STORE_FORCE_PATH_STYLE=true
    # one PUT an object, as it was made: its ETag stays its MD5, which the site compares
    export RCLONE_CONFIG_STORE_UPLOAD_CUTOFF=5G
    export RCLONE_CONFIG_STORE_NO_CHECK_BUCKET=true
    # no configuration of anybody
    export RCLONE_CONFIG=/dev/null
    export bucket=store:${S3_BUCKET:-megengine-web-profile}
}
