#!/usr/bin/env bash
# Makes a container image of Debian's busybox as an archive:
#
#   busybox_image.sh ARCHIVE [NAME FOLDER [PROGRAM]]
#
# Without NAME it is `localhost/busybox:1`, the sandbox of pods (its command sleeps) and the app of tests (httpd, sh).
# /www/index.html is a page. With NAME and FOLDER it has that name, and the files of the folder too. With PROGRAM it
# runs that one.
set -euo pipefail
archive=$1 name=${2:-localhost/busybox:1} more=${3:-} command='"sleep", "2147483647"'
[[ -z ${4:-} ]] || command="\"$4\""
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
layer=$(mktemp -d)
trap 'rm -rf "$layer"' EXIT
chmod 755 "$layer"
mkdir -p "$layer"/{bin,tmp,www}
cp /bin/busybox "$layer/bin/"
for applet in $(/bin/busybox --list); do
  [[ $applet == busybox ]] || ln -s busybox "$layer/bin/$applet"
done
echo 'hello from a pod' >"$layer/www/index.html"
chmod 1777 "$layer/tmp"
# A file in the place of an applet replaces the link, not busybox itself.
[[ -z $more ]] || cp -r --remove-destination "$more/." "$layer/"
"$here/image.sh" "$archive" "$name" "$layer" "{ \"Env\": [\"PATH=/bin\"], \"Cmd\": [$command] }"
