#!/usr/bin/env bash
# Tests the package for JupyterHub with the JupyterHub versions that tests/hub*.txt pin.
#
#   python/test.sh [ARGUMENTS OF PYTEST]
#
# Packages are cached in ${XDG_CACHE_HOME:-~/.cache}/ludgate/jupyterhub, and installed again when their lists change.
# $PYTHON is the Python to use (python3); the lists are for 3.11. $LUDGATE_TEST_PROGRAM is the gateway that is the proxy
# of a hub, by default the one that `cargo build` makes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/jupyterhub
python=${PYTHON:-python3}
mkdir -p "$cache"

# Whether $1 was not installed from the files $2….
is_stale() {
  local folder=$1 sum
  shift
  sum=$(cat "$@" | sha256sum | cut -d ' ' -f 1)
  [[ $(cat "$folder/sum" 2>/dev/null) != "$sum" ]]
}

# Marks $1 as installed from the files $2….
mark() {
  local folder=$1
  shift
  cat "$@" | sha256sum | cut -d ' ' -f 1 >"$folder/sum"
}

proxy=$cache/proxy
if is_stale "$proxy" "$here/tests/proxy/package-lock.json"; then
  rm -rf "$proxy"
  mkdir -p "$proxy"
  cp "$here"/tests/proxy/{package.json,package-lock.json,.npmrc} "$proxy/"
  # Packages must not run install scripts.
  npm ci --prefix "$proxy" --ignore-scripts --omit=dev --no-audit --no-fund
  mark "$proxy" "$here/tests/proxy/package-lock.json"
fi
export LUDGATE_TEST_HUB_PROXY=$proxy/node_modules/configurable-http-proxy/bin/configurable-http-proxy

program=${LUDGATE_TEST_PROGRAM:-${CARGO_TARGET_DIR:-$here/../target}/debug/ludgate}
if [[ ! -x $program ]]; then
  echo "$program is not there; cargo build makes it" >&2
  exit 1
fi
LUDGATE_TEST_PROGRAM=$(realpath "$program")
export LUDGATE_TEST_PROGRAM

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
export PYTHONDONTWRITEBYTECODE=1
cd "$here"
for list in "$here"/tests/hub*.txt; do
  venv=$cache/$(basename "$list" .txt)
  if is_stale "$venv" "$list"; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$list"
    mark "$venv" "$list"
  fi
  # What is tested is the package as it is installed by others.
  rm -rf "${wheels:?}"/*
  "$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w "$wheels" "$here"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheels"/*.whl
  "$venv/bin/pip" check
  echo "JupyterHub $("$venv/bin/jupyterhub" --version)"
  "$venv/bin/python" -m pytest "$@"
done
