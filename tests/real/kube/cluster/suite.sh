#!/usr/bin/env bash
# Runs every test that needs a whole cluster, and checks that they used all rights that they had. cluster.sh provides
# the cluster, with two nodes, and two hollow ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."

# Pods run on hollow nodes only where a test wants it.
hollow=$(kubectl get nodes -o name | sed -n 's|^node/\(hollow-\)|\1|p')
# shellcheck disable=SC2086 # Several names.
kubectl taint nodes $hollow ludgate.test/hollow=true:NoSchedule >/dev/null

if command -v cargo-nextest >/dev/null 2>&1; then
  # .config/nextest.toml excludes them from a plain run.
  cargo nextest run --no-fail-fast --ignore-default-filter -E 'test(/^real_cluster::/)'
else
  cargo test --no-fail-fast --test it -- real_cluster::
fi
"$(tests/real/kube/helm_library.sh)" -B tests/real/kube/unused_rights.py "$LUDGATE_AUDIT_LOG" cluster
