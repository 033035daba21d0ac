#!/usr/bin/env bash
# Every test that needs a Kubernetes API server; run.sh gives it one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

if command -v cargo-nextest >/dev/null 2>&1; then
  # They are left out of a plain run by .config/nextest.toml.
  cargo nextest run --no-fail-fast --ignore-default-filter -E 'test(/^kube::/)'
else
  cargo test --no-fail-fast --test it -- kube::
fi
tests/real/kube/rbac.sh
LUDGATE=target/debug/ludgate tests/real/kube/chart.sh
