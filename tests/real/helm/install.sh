#!/usr/bin/env bash
# Prints the path of the Helm that the tests of installs use. LUDGATE_HELM names a real one, such as 3.16 or newer; else
# it is the program beside this script, whose library is installed once (tests/real/kube/helm_library.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ -n ${LUDGATE_HELM:-} ]]; then
  if [[ $LUDGATE_HELM != /* || ! -x $LUDGATE_HELM ]]; then
    echo "LUDGATE_HELM is not the absolute path of a program: $LUDGATE_HELM" >&2
    exit 1
  fi
  echo "$LUDGATE_HELM"
  exit 0
fi

"$here/../kube/helm_library.sh" >/dev/null
echo "$here/helm"
