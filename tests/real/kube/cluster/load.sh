#!/usr/bin/env bash
# Loads the archive of an image into every node of the cluster, the first one last:
#
#   load.sh ARCHIVE
set -euo pipefail
archive=$1
for address in $LUDGATE_CONTAINERDS; do
  ctr --address "$address" -n k8s.io images import "$archive" >/dev/null
done
