#!/usr/bin/env bash
# Makes a container image of a program that is built already, and loads it into the cluster:
#
#   ludgate_image.sh PROGRAM NAME
#
# It has the program without its symbols, the libraries of this machine, and the user and entry point of the Dockerfile,
# which make test-image builds.
set -euo pipefail
program=$1 name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layer=$work/layer
mkdir -p "$layer/usr/local/bin"
strip -o "$layer/usr/local/bin/ludgate" "$program"
ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$layer$(dirname "$library")"
  cp -L "$library" "$layer$library"
done
# The last stage is the image of the gateway.
user=$(sed -n 's/^USER //p' "$here/../../../../Dockerfile" | tail -n 1)
entry=$(sed -n 's/^ENTRYPOINT //p' "$here/../../../../Dockerfile" | tail -n 1)
"$here/image.sh" "$work/image.tar" "$name" "$layer" "{ \"User\": \"$user\", \"Entrypoint\": $entry }"
"$here/load.sh" "$work/image.tar"
