#!/bin/sh
# Start object storage: SeaweedFS in one process. Other containers reach only its S3 ports; master,
# filer and volume server accept requests without keys, so they listen on the loopback interface.
# Tests start it with this script and further options, too.
set -eu
AWS_ACCESS_KEY_ID=$(cat "${S3_ACCESS_KEY_ID_FILE:-/run/secrets/s3_access_key_id}")
AWS_SECRET_ACCESS_KEY=$(cat "${S3_SECRET_ACCESS_KEY_FILE:-/run/secrets/s3_secret_access_key}")
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
folder=${STORAGE_FOLDER:-/objects}
# the image's filer.toml names a folder that an unprivileged user cannot write
export WEED_LEVELDB2_ENABLED=true WEED_LEVELDB2_DIR="$folder/filerldb2"
# The only master need not wait 20 s for others after a restart. Volumes are files of up to 1 GB: with
# the default of 30 GB a small disk has room for none.
exec weed -logtostderr=true server -dir="$folder" -ip=127.0.0.1 -ip.bind=127.0.0.1 \
    -master.telemetry=false -master.electionTimeout=1s -master.volumeSizeLimitMB=1024 \
    -volume.max=0 -volume.preStopSeconds=1 -filer -s3 -s3.ip.bind="${S3_BIND:-0.0.0.0}" -s3.port.iceberg=0 -s3.port.lance=0 -s3.iam=false \
    -s3.autoCreateBucket=false "$@"
