#!/usr/bin/env bash
# Makes hub5.txt and hub6.txt anew: the newest packages with each JupyterHub, with the hashes of their files.
# It needs pip-compile of the package pip-tools, on Python 3.11.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for version in 5 6; do
  { cat requirements.in; echo "jupyterhub ==$version.*"; } >"hub$version.in"
  pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-emit-index-url \
    --no-emit-find-links --no-emit-trusted-host --no-annotate --output-file "hub$version.txt" "hub$version.in"
  rm "hub$version.in"
done
