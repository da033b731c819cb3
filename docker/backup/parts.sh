# shellcheck shell=bash
# Shared by backup and restore: access to the database and the bucket. Secrets are not passed as
# arguments, because every user of the machine can see arguments.

value() { # NAME: print the variable NAME, or the contents of the file NAME_FILE
    local file="$1_FILE"
    if [ -n "${!file:-}" ]; then
        cat "${!file}"
    else
        printf '%s\n' "${!1:-}"
    fi
}

unquoted() { # %40 -> @
    printf '%b' "$(printf '%s' "$1" | sed -E 's/\\/\\\\/g; s/%([0-9A-Fa-f]{2})/\\x\1/g')"
}

use_database() { # set the variables PG* of libpq from DATABASE_URL
    local address host rest pair key
    address=$(value DATABASE_URL)
    if ! [[ $address =~ ^postgres(ql)?://(([^:@/]*)(:([^/]*))?@)?(\[[^]]*\]|[^][/?@:]*)(:([0-9]+))?/([^?]*)(\?(.*))?$ ]]; then
        echo "DATABASE_URL is not a PostgreSQL URL: use postgres://user:password@host:5432/name." >&2
        exit 1
    fi
    PGUSER=$(unquoted "${BASH_REMATCH[3]}")
    PGPASSWORD=$(unquoted "${BASH_REMATCH[5]}")
    host=${BASH_REMATCH[6]#[}
    host=${host%]}
    PGPORT=${BASH_REMATCH[8]:-5432}
    PGDATABASE=$(unquoted "${BASH_REMATCH[9]}")
    rest=${BASH_REMATCH[11]:-}
    PGHOST=$(unquoted "$host")
    while [ -n "$rest" ]; do
        pair=${rest%%&*}
        case $pair in
        host=*) PGHOST=$(unquoted "${pair#host=}") ;;
        ssl*=*) # sslrootcert -> PGSSLROOTCERT, ssl_min_protocol_version -> PGSSLMINPROTOCOLVERSION
            key=${pair%%=*}
            key=${key//_/}
            export "PG${key^^}=$(unquoted "${pair#*=}")"
            ;;
        esac
        [[ $rest == *"&"* ]] || break
        rest=${rest#*&}
    done
    export PGUSER PGPASSWORD PGHOST PGPORT PGDATABASE
}

use_storage() { # configure rclone by its environment
    export RCLONE_CONFIG_STORE_TYPE=s3
    export RCLONE_CONFIG_STORE_PROVIDER=${S3_PROVIDER:-Other}
    RCLONE_CONFIG_STORE_ACCESS_KEY_ID=$(value S3_ACCESS_KEY_ID)
    RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY=$(value S3_SECRET_ACCESS_KEY)
    export RCLONE_CONFIG_STORE_ACCESS_KEY_ID RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY
    # without keys, use the role of the machine, as the site does
    [ -n "$RCLONE_CONFIG_STORE_ACCESS_KEY_ID" ] || export RCLONE_CONFIG_STORE_ENV_AUTH=true
    [ -z "${S3_CA_BUNDLE:-}" ] || export RCLONE_CA_CERT=$S3_CA_BUNDLE
    export RCLONE_CONFIG_STORE_ENDPOINT=$S3_ENDPOINT_URL
    export RCLONE_CONFIG_STORE_REGION=${S3_REGION:-us-east-1}
    export RCLONE_CONFIG_STORE_FORCE_PATH_STYLE=true
    # store each object with one PUT, so that its ETag is its MD5, which the site compares
    export RCLONE_CONFIG_STORE_UPLOAD_CUTOFF=5G
    export RCLONE_CONFIG_STORE_NO_CHECK_BUCKET=true
    # ignore configuration files
    export RCLONE_CONFIG=/dev/null
    export bucket=store:${S3_BUCKET:-megengine-web-profile}
}
