#!/usr/bin/env bash
# Makes a container image of Debian's busybox, `localhost/busybox:1`, as an archive:
#
#   busybox_image.sh ARCHIVE
#
# It is the sandbox of pods (its command sleeps) and the app of tests (httpd, sh). /www/index.html is a page.
set -euo pipefail
archive=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/layer"/{bin,tmp,www}
cp /bin/busybox "$work/layer/bin/"
for name in $(/bin/busybox --list); do
  [[ $name == busybox ]] || ln -s busybox "$work/layer/bin/$name"
done
echo 'hello from a pod' >"$work/layer/www/index.html"
chmod 1777 "$work/layer/tmp"
tar -C "$work/layer" --owner=0 --group=0 --sort=name --mtime=@0 -cf "$work/layer.tar" .
digest=$(sha256sum "$work/layer.tar")
cat >"$work/config.json" <<CONFIG
{
  "architecture": "amd64", "os": "linux",
  "config": { "Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"] },
  "rootfs": { "type": "layers", "diff_ids": ["sha256:${digest%% *}"] },
  "history": [{ "created_by": "busybox" }]
}
CONFIG
cat >"$work/manifest.json" <<MANIFEST
[{ "Config": "config.json", "RepoTags": ["localhost/busybox:1"], "Layers": ["layer.tar"] }]
MANIFEST
tar -C "$work" -cf "$archive" config.json manifest.json layer.tar
