#!/usr/bin/env bash
# Checks that a folder with the files of the image serves (as root):
#
#   tests/real/image/serve.sh ROOT
#
# The program runs in it as the image's user without write access, and exits on SIGTERM.
set -euo pipefail
root=$1
# By number, as in the Dockerfile.
user=65532

fail() {
  echo "image: $*" >&2
  exit 1
}

work=$(mktemp -d)
server=
clean() {
  if [[ -n $server ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap clean EXIT

mkdir -p "$root/etc/ludgate"
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

log=$work/log
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
