#!/usr/bin/env bash
# Makes an image of the file browser cloudcmd with Node.js, and loads it into the cluster:
#
#   cloudcmd_image.sh NAME
#
# tests/real/kube/cloudcmd/install.sh must have installed cloudcmd: here is no network. A name that is loaded already stays:
# many tests load it, and it is large.
set -euo pipefail
name=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cloudcmd=$("$here/../cloudcmd/install.sh")
exec 9>"$CONTAINERD_ADDRESS.cloudcmd"
flock 9
# The first node is loaded last.
if ctr -n k8s.io images list -q | grep -qxF "$name"; then
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
files=$work/files
mkdir -p "$files"/{bin,app}
node=$(readlink -f "$(command -v node)")
cp "$node" "$files/bin/node"
# The shared libraries of the program, at their own paths.
ldd "$node" | grep -o '/[^ ]*' | while read -r library; do
  install -D "$library" "$files$library"
done
cp -r "$cloudcmd/node_modules" "$files/app/"
cat >"$files/bin/cloudcmd" <<'CLOUDCMD'
#!/bin/sh
exec node /app/node_modules/cloudcmd/bin/cloudcmd.mjs "$@"
CLOUDCMD
chmod 755 "$files/bin/cloudcmd"
"$here/busybox_image.sh" "$work/image.tar" "$name" "$files"
"$here/load.sh" "$work/image.tar"
