#!/usr/bin/env bash
# Makes an image in place of one with JupyterLab, loads it into the cluster, and prints its digest:
#
#   notebook_image.sh NAME
#
# NAME is without a tag; pods ask for NAME@DIGEST. The image is busybox with `bash` and `jupyterhub-singleuser`, which
# notes in its home that it has started, and serves one page at the hub's path. busybox itself gets the name that
# docs/labs.md has.
set -euo pipefail
name=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/files/bin"
cat >"$work/files/bin/bash" <<'BASH'
#!/bin/sh
exec sh "$@"
BASH
cat >"$work/files/bin/jupyterhub-singleuser" <<'SINGLEUSER'
#!/bin/sh
set -eu
# The whole identity comes from the mounted files.
echo "$(id -un) $(id -u)" >"$HOME/started"
mkdir -p "/tmp/www$JUPYTERHUB_SERVICE_PREFIX"
echo "the lab of $(id -un)" >"/tmp/www$JUPYTERHUB_SERVICE_PREFIX/index.html"
# Without a trap, the first process of a container ignores SIGTERM.
trap 'exit 0' TERM
httpd -f -p 8888 -h /tmp/www &
wait "$!"
SINGLEUSER
chmod 755 "$work"/files/bin/*
"$here/busybox_image.sh" "$work/image.tar" "$name:r1_0_0" "$work/files"
"$here/load.sh" "$work/image.tar"
digest=$(ctr -n k8s.io images list "name==$name:r1_0_0" | awk 'NR == 2 { print $3 }')
[[ $digest == sha256:* ]]
for address in $LUDGATE_CONTAINERDS; do
  ctr --address "$address" -n k8s.io images tag --force "$name:r1_0_0" "$name@$digest" >/dev/null
  ctr --address "$address" -n k8s.io images tag --force localhost/busybox:1 docker.io/library/busybox:1.37 >/dev/null
done
echo "$digest"
