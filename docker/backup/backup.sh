#!/usr/bin/env bash
# Saves rows and objects of a running site below BACKUP_FOLDER; prints the new backup's folder.
#   objects/         every object that any backup here knows
#   TIME/rows.dump   the database at one moment;  TIME/objects.txt   the objects that belong to it
# Objects are copied before and after the rows: the first time is long and beside the work, the
# second brings what came meanwhile, so each row's objects are there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/backup/parts.sh
. "$here/parts.sh"
: "${BACKUP_FOLDER:?where backups are kept}"
: "${BACKUP_KEEP:=14}"
umask 077
export LC_ALL=C
use_database
use_storage

name=$(date -u +%Y%m%dT%H%M%SZ)
draft=$BACKUP_FOLDER/.$name
mkdir -p "$BACKUP_FOLDER"
# one that ends removes what no whole backup names: another one's that is not whole yet
exec 9>"$BACKUP_FOLDER/.lock"
flock --nonblock 9 || { echo "Another backup is being made in $BACKUP_FOLDER." >&2; exit 1; }
mkdir -p "$BACKUP_FOLDER/objects" "$draft"
trap 'rm -rf "$draft"' EXIT

copy() { rclone copy "$bucket" "$BACKUP_FOLDER/objects" --use-server-modtime --update -q; }

listed() { rclone lsf "$bucket" --recursive --files-only; }

kept() { (cd "$BACKUP_FOLDER/objects" && find . -type f -printf '%P\n' | sort); }

copy
# what is removed from here on is still of the rows
listed >"$draft/before.txt"
pg_dump --format=custom --no-owner --no-privileges --file="$draft/rows.dump"
copy
listed | sort -u - "$draft/before.txt" >"$draft/listed.txt"
kept | comm -12 "$draft/listed.txt" - >"$draft/objects.txt"
rm "$draft/before.txt" "$draft/listed.txt"
pg_restore --list "$draft/rows.dump" >"$draft/contents.txt"
(cd "$draft" && sha256sum rows.dump objects.txt contents.txt >SHA256SUMS)
# a folder without a dot is a whole backup
mv "$draft" "$BACKUP_FOLDER/$name"
trap - EXIT

# the newest ones stay, and of the objects what one of them names
find "$BACKUP_FOLDER" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*Z' | sort -r |
    tail -n "+$((BACKUP_KEEP + 1))" | xargs -r rm -rf --
cat "$BACKUP_FOLDER"/[0-9]*Z/objects.txt | sort -u >"$BACKUP_FOLDER/.wanted"
kept | comm -13 "$BACKUP_FOLDER/.wanted" - |
    while IFS= read -r gone; do rm -f -- "$BACKUP_FOLDER/objects/$gone"; done
rm -f "$BACKUP_FOLDER/.wanted"
echo "$BACKUP_FOLDER/$name"
