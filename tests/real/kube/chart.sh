#!/usr/bin/env bash
# Checks the Helm chart in config/chart, and config/examples/sidecar.yaml, against a Kubernetes API server:
#
#   tests/real/kube/run.sh tests/real/kube/chart.sh
#
# Helm renders the chart (helm_library.sh). chart.py has the checks.
# With LUDGATE=target/debug/ludgate the script also runs `config check` on the rendered configurations.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."

if [[ -z ${KUBECONFIG:-} ]]; then
  echo "KUBECONFIG is not set; run: tests/real/kube/run.sh $0" >&2
  exit 2
fi

python=$(tests/real/kube/helm_library.sh)
exec "$python" -B "$here/chart.py"
