#!/usr/bin/env bash
# Installs the file browser cloudcmd from npm and prints its folder. The first run takes two minutes; it is cached in
# ${XDG_CACHE_HOME:-~/.cache}/ludgate/cloudcmd until this script or package-lock.json changes. Standard output has only
# the folder's name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/cloudcmd
sum=$(cat "$here/install.sh" "$here/package-lock.json" | sha256sum | cut -d ' ' -f 1)

if [[ $(cat "$folder/sum" 2>/dev/null) != "$sum" ]]; then
  mkdir -p "$(dirname "$folder")"
  part=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$part"' EXIT
  cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc "$part/"
  # Packages must not run install scripts.
  npm ci --prefix "$part" --ignore-scripts --omit=dev --no-audit --no-fund >&2
  # For editors that the tests do not open; without it the image has half the size.
  find "$part" -type f -name '*.map' -delete
  find "$part" -type d -name monaco-editor -prune -exec rm -rf {} +
  echo "$sum" >"$part/sum"
  rm -rf "$folder"
  mv "$part" "$folder"
fi
echo "$folder"
