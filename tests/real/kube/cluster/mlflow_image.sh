#!/usr/bin/env bash
# Makes an image in place of one with MLflow, since the cluster has no network, and loads it into the cluster:
#
#   mlflow_image.sh NAME
#
# It is busybox with `bash` and `mlflow`. `mlflow server` serves one page, on the port and below the path of its
# arguments. It refuses arguments that the shipped template does not have.
set -euo pipefail
name=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/files/bin"
cat >"$work/files/bin/bash" <<'BASH'
#!/bin/sh
exec sh "$@"
BASH
cat >"$work/files/bin/mlflow" <<'MLFLOW'
#!/bin/sh
set -eu
test "$1" = server
shift
while test $# -gt 0; do
  case $1 in
    --host) host=$2 ;;
    --port) port=$2 ;;
    --static-prefix) prefix=$2 ;;
    --backend-store-uri | --default-artifact-root) ;;
    *)
      echo "unknown argument: $1" >&2
      exit 2
      ;;
  esac
  shift 2
done
mkdir -p "/tmp/www$prefix"
echo "MLflow at $prefix" >"/tmp/www$prefix/index.html"
# Without a trap, the first process of a container ignores SIGTERM.
trap 'exit 0' TERM
httpd -f -p "$host:$port" -h /tmp/www &
echo "Listening at: http://$host:$port"
wait "$!"
MLFLOW
chmod 755 "$work"/files/bin/*
"$here/busybox_image.sh" "$work/image.tar" "$name" "$work/files"
"$here/load.sh" "$work/image.tar"
