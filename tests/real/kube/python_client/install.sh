#!/usr/bin/env bash
# Installs PrimeHub's Python client from PyPI for the tests on a cluster, and prints the path of its program.
#
# It is cached in ${XDG_CACHE_HOME:-~/.cache}/ludgate/python-client, and reinstalled when requirements.txt changes.
# Standard output has only the path; everything else goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/python-client
mkdir -p "$cache"
exec 3>&1 >&2

sum=$(sha256sum "$here/requirements.txt" | cut -d ' ' -f 1)
if [[ ! -f $cache/sum ]] || [[ $(cat "$cache/sum") != "$sum" ]]; then
  rm -rf "$cache/venv" "$cache/sum"
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  echo "$sum" >"$cache/sum"
fi
echo "$cache/venv/bin/primehub" >&3
