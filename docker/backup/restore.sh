#!/usr/bin/env bash
# Restore a backup (the folder that backup.sh printed) into an EMPTY database and bucket.
# Nothing is overwritten: if either contains other data, the script stops before it changes anything.
# The bucket may contain objects of the backup, so that an interrupted restore can be run again.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/backup/parts.sh
. "$here/parts.sh"
backup=${1:?which backup: a folder such as /backups/20260101T000000Z}
(cd "$backup" && sha256sum --check --quiet SHA256SUMS)
use_database
use_storage

tables=$(psql -XAtc "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
if [ "$tables" -ne 0 ]; then
    echo "The database $PGDATABASE has $tables tables: restore into an empty one." >&2
    exit 1
fi
other=$(rclone lsf "$bucket" --recursive --files-only | sort | comm -23 - "$backup/objects.txt" | sed -n 1p)
if [ -n "$other" ]; then
    echo "The bucket ${bucket#store:} has objects that are not in the backup ($other): restore into an empty one." >&2
    exit 1
fi
# objects first, so that no row ever names a missing file
rclone copy "$(dirname "$backup")/objects" "$bucket" --files-from-raw "$backup/objects.txt" \
    --no-traverse --ignore-existing -q
pg_restore --exit-on-error --single-transaction --no-owner --no-privileges \
    --dbname="$PGDATABASE" "$backup/rows.dump"
echo "Restored. Next: migrate (a newer version), \`manage.py verify\`, \`manage.py doctor\`."
