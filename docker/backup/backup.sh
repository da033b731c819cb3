#!/usr/bin/env bash
# Save rows and objects of a running site to BACKUP_FOLDER; print the folder of the new backup.
#   objects/         the objects of all backups
#   TIME/rows.dump   the database at one moment;  TIME/objects.txt   the objects that belong to it
# Objects are copied before and after the rows. The first copy takes long; the second adds the objects
# that were stored in the meantime, so the objects of every row are in the backup.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=docker/backup/parts.sh
. "$here/parts.sh"
: "${BACKUP_FOLDER:?set it to the folder of backups}"
: "${BACKUP_KEEP:=14}"
[[ $BACKUP_KEEP =~ ^[1-9][0-9]*$ ]] || { echo "BACKUP_KEEP must be a number above 0: $BACKUP_KEEP" >&2; exit 1; }
umask 077
export LC_ALL=C
use_database
use_storage

name=$(date -u +%Y%m%dT%H%M%SZ)
draft=$BACKUP_FOLDER/.$name
mkdir -p "$BACKUP_FOLDER"
# a backup deletes objects that no complete backup lists, so two must not run at the same time
exec 9>"$BACKUP_FOLDER/.lock"
flock --nonblock 9 || { echo "Another backup to $BACKUP_FOLDER is running." >&2; exit 1; }
# drafts of backups that were killed
rm -rf "$BACKUP_FOLDER"/.[0-9]*Z
mkdir -p "$BACKUP_FOLDER/objects" "$draft"
trap 'rm -rf "$draft"' EXIT

copy() { rclone copy "$bucket" "$BACKUP_FOLDER/objects" --use-server-modtime --update -q; }

listed() { rclone lsf "$bucket" --recursive --files-only; }

kept() { (cd "$BACKUP_FOLDER/objects" && find . -type f -printf '%P\n' | sort); }

copy
# objects that are removed from now on still belong to the rows
listed >"$draft/before.txt"
pg_dump --format=custom --no-owner --no-privileges --file="$draft/rows.dump"
copy
listed | sort -u - "$draft/before.txt" >"$draft/listed.txt"
kept | comm -12 "$draft/listed.txt" - >"$draft/objects.txt"
rm "$draft/before.txt" "$draft/listed.txt"
pg_restore --list "$draft/rows.dump" >"$draft/contents.txt"
(cd "$draft" && sha256sum rows.dump objects.txt contents.txt >SHA256SUMS)
# a folder without a leading dot is a complete backup
mv "$draft" "$BACKUP_FOLDER/$name"
trap - EXIT

# keep the newest backups and the objects that they list
find "$BACKUP_FOLDER" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*Z' | sort -r |
    tail -n "+$((BACKUP_KEEP + 1))" | xargs -r rm -rf --
cat "$BACKUP_FOLDER"/[0-9]*Z/objects.txt | sort -u >"$BACKUP_FOLDER/.wanted"
kept | comm -13 "$BACKUP_FOLDER/.wanted" - |
    while IFS= read -r gone; do rm -f -- "$BACKUP_FOLDER/objects/$gone"; done
rm -f "$BACKUP_FOLDER/.wanted"
echo "$BACKUP_FOLDER/$name"
