#!/usr/bin/env bash
# Makes a container image of one layer as an archive, with files of the machine and no network:
#
#   image.sh ARCHIVE NAME FOLDER CONFIG
#
# FOLDER is the image's root, CONFIG the JSON object `config` of the image.
set -euo pipefail
archive=$1 name=$2 folder=$3 config=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$folder" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar")
cat >"$work/config.json" <<CONFIG
{
  "architecture": "amd64", "os": "linux",
  "config": $config,
  "rootfs": { "type": "layers", "diff_ids": ["sha256:${digest%% *}"] },
  "history": [{ "created_by": "$name" }]
}
CONFIG
cat >"$work/manifest.json" <<MANIFEST
[{ "Config": "config.json", "RepoTags": ["$name"], "Layers": ["layer.tar"] }]
MANIFEST
tar -C "$work" -cf "$archive" config.json manifest.json layer.tar
