#!/usr/bin/env bash
# Makes a container image of Debian's busybox, `localhost/busybox:1`, as an archive:
#
#   busybox_image.sh ARCHIVE
#
# It is the sandbox of pods (its command sleeps) and the app of tests (httpd, sh). /www/index.html is a page.
set -euo pipefail
archive=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
layer=$(mktemp -d)
trap 'rm -rf "$layer"' EXIT
chmod 755 "$layer"
mkdir -p "$layer"/{bin,tmp,www}
cp /bin/busybox "$layer/bin/"
for name in $(/bin/busybox --list); do
  [[ $name == busybox ]] || ln -s busybox "$layer/bin/$name"
done
echo 'hello from a pod' >"$layer/www/index.html"
chmod 1777 "$layer/tmp"
"$here/image.sh" "$archive" localhost/busybox:1 "$layer" '{ "Env": ["PATH=/bin"], "Cmd": ["sleep", "2147483647"] }'
