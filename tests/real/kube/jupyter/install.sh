#!/usr/bin/env bash
# Installs JupyterHub, JupyterLab and the hub's proxy for the tests on a cluster, and prints their folder:
#
#   venv     JupyterHub, its client for OpenID providers, JupyterLab, and what python/ needs (requirements.txt)
#   proxy    configurable-http-proxy (python/tests/proxy)
#   image    an image with JupyterLab and `jupyterhub-singleuser`, as an OCI image layout (image.sh)
#
# The folder is cached in ${XDG_CACHE_HOME:-~/.cache}/ludgate/jupyter until one of these files changes. The first run
# takes two minutes. Standard output has only the folder's name. To renew requirements.txt, on Python 3.11:
#
#   pip-compile --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url --no-annotate \
#     --output-file requirements.txt requirements.in
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
proxy=$here/../../../../python/tests/proxy
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/jupyter
sum=$(cat "$here"/{install.sh,requirements.txt,image.sh,layout.py} "$proxy/package-lock.json" | sha256sum |
  cut -d ' ' -f 1)
exec 3>&1 >&2

# One run installs, and the others wait.
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [[ $(cat "$folder/sum" 2>/dev/null) != "$sum" ]]; then
  rm -rf "$folder"/{sum,venv,proxy,image}
  "${PYTHON:-python3}" -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$here/requirements.txt"
  mkdir "$folder/proxy"
  cp "$proxy"/{package.json,package-lock.json,.npmrc} "$folder/proxy/"
  # Packages must not run install scripts.
  npm ci --prefix "$folder/proxy" --ignore-scripts --omit=dev --no-audit --no-fund
  "$here/image.sh" "$folder/venv" "$folder/image"
  echo "$sum" >"$folder/sum"
fi
echo "$folder" >&3
