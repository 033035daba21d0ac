#!/usr/bin/env bash
# Checks the Helm chart in config/chart, and config/examples/sidecar.yaml, against a Kubernetes API server:
#
#   tests/real/kube/run.sh tests/real/kube/chart.sh
#
# Helm renders the chart, as a library from PyPI that is installed in target/chart once. chart.py has the checks.
# With LUDGATE=target/debug/ludgate the script also runs `config check` on the rendered configurations.
# Needs Python 3.11 or newer with venv, on Linux x86_64.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."

if [[ -z ${KUBECONFIG:-} ]]; then
  echo "KUBECONFIG is not set; run: tests/real/kube/run.sh $0" >&2
  exit 2
fi

helm="helm-sdkpy==0.1.32"
yaml="pyyaml==6.0.3"
venv=target/chart
# Created last, so an interrupted installation or other versions are installed again.
done=$venv/$helm+$yaml
if [[ ! -e $done ]]; then
  python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' || {
    echo 'Python 3.11 or newer with venv is needed (Debian: python3-venv)' >&2
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
exec "$venv/bin/python" -B "$here/chart.py"
