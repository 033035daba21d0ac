#!/usr/bin/env bash
# Installs Helm, as a library from PyPI, in target/chart once, and prints the path of the Python that has it. Standard
# output has only the path. helm.py calls the library. Needs Python 3.11 or newer with venv, on Linux x86_64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
exec 3>&1 >&2

helm="helm-sdkpy==0.1.32"
yaml="pyyaml==6.0.3"
venv=target/chart
# Created last, so an interrupted installation or other versions are installed again.
done=$venv/$helm+$yaml
if [[ ! -e $done ]]; then
  python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' || {
    echo 'Python 3.11 or newer with venv is needed (Debian: python3-venv)'
    exit 1
  }
  rm -rf "$venv"
  python3 -m venv "$venv"
  # Its Python part requires Python 3.12 and more packages; the checks use only its shared library.
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: "$yaml"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: --no-deps \
    --ignore-requires-python "$helm"
  touch "$done"
fi
echo "$PWD/$venv/bin/python" >&3
