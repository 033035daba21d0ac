#!/usr/bin/env bash
# Runs every test that needs a Kubernetes API server, and checks that they used all rights that they had. run.sh provides
# the server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# Before the tests, which run at once.
tests/real/helm/install.sh >/dev/null
if command -v cargo-nextest >/dev/null 2>&1; then
  # .config/nextest.toml excludes them from a plain run.
  cargo nextest run --no-fail-fast --ignore-default-filter -E 'test(/^kube::/)'
else
  cargo test --no-fail-fast --test it -- kube::
fi
if [[ -n ${LUDGATE_AUDIT_LOG:-} ]]; then
  "$(tests/real/kube/helm_library.sh)" -B tests/real/kube/unused_rights.py "$LUDGATE_AUDIT_LOG" kube
else
  echo 'skipped: unused rights, since this API server is not of run.sh'
fi
tests/real/kube/rbac.sh
LUDGATE=target/debug/ludgate tests/real/kube/chart.sh
