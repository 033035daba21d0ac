#!/usr/bin/env bash
# Makes an image of the file browser cloudcmd with Node.js, and loads it into the cluster:
#
#   cloudcmd_image.sh NAME
#
# tests/real/kube/cloudcmd/install.sh must have installed cloudcmd, since the cluster has no network. A name that is
# loaded already stays: many tests load it, and it is large. Further names are for the same image.
#
# Without a command it takes the place of File Browser, whose image is not available here: it obeys the variables of
# File Browser that viewers without a podSpec have.
set -euo pipefail
name=$1 built=localhost/cloudcmd:1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cloudcmd=$("$here/../cloudcmd/install.sh")
exec 9>"$CONTAINERD_ADDRESS.cloudcmd"
flock 9
loaded() { ctr -n k8s.io images list -q | grep -xF "$1" >/dev/null; }
# Gives the image on every node the name, on the first one last.
tag_image() {
  local address
  for address in $LUDGATE_CONTAINERDS; do
    ctr --address "$address" -n k8s.io images tag --force "$built" "$name" >/dev/null
  done
}
# The first node is loaded last, so what it has is on every node.
if loaded "$name"; then
  exit 0
fi
if loaded "$built"; then
  tag_image
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
cat >"$files/bin/filebrowser" <<'FILEBROWSER'
#!/bin/sh
set -eu
test "$FB_ADDRESS" = 0.0.0.0 && test "$FB_NOAUTH" = true
export HOME=/tmp
# Without a trap, the first process of a container ignores SIGTERM.
trap 'exit 0' TERM
# Its WebSockets need a prefix without the slash at the end.
cloudcmd --root "$PWD" --port "$FB_PORT" --prefix "${FB_BASEURL%/}" --no-auth --no-open --no-terminal \
  --no-console --no-config-dialog --no-contact --no-online &
wait "$!"
FILEBROWSER
chmod 755 "$files"/bin/{cloudcmd,filebrowser}
"$here/busybox_image.sh" "$work/image.tar" "$built" "$files" filebrowser
"$here/load.sh" "$work/image.tar"
if [[ $name != "$built" ]]; then
  tag_image
fi
