#!/usr/bin/env bash
# Restore a backup (the folder that backup.sh printed) into an EMPTY database and bucket.
# Nothing is overwritten: if either contains other data, the script stops before it changes anything.
# The bucket may contain objects of the backup, so that an interrupted restore can be run again.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/backup/parts.sh
. "$here/parts.sh"
backup=${1:?name the folder of a backup: /backups/20260101T000000Z}
(cd "$backup" && sha256sum --check --quiet SHA256SUMS)
use_database
use_storage

tables=$(psql -XAtc "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
if [ "$tables" -ne 0 ]; then
    echo "The database $PGDATABASE has $tables tables. Restore into an empty database." >&2
    exit 1
fi
other=$(rclone lsf "$bucket" --recursive --files-only | sort | comm -23 - "$backup/objects.txt" | sed -n 1p)
if [ -n "$other" ]; then
    echo "The bucket ${bucket#store:} has objects that are not in the backup ($other). Restore into an empty bucket." >&2
    exit 1
fi
# objects first, so that no row refers to a missing object
rclone copy "$(dirname "$backup")/objects" "$bucket" --files-from-raw "$backup/objects.txt" \
    --no-traverse --ignore-existing -q
pg_restore --exit-on-error --single-transaction --no-owner --no-privileges \
    --dbname="$PGDATABASE" "$backup/rows.dump"
echo "Restored. Next, run \`manage.py migrate\` if the site is newer, \`manage.py verify\` and \`manage.py doctor\`."
