#!/usr/bin/env bash
# Runs a command with a Kubernetes API server of its own:
#
#   tests/real/kube/run.sh COMMAND…
#
# The server is real: etcd and kube-apiserver from the folder that tests/real/kube/install.sh prints, with RBAC
# and the CRDs of config/crd. The command gets an admin's KUBECONFIG, and a PATH with that folder's kubectl.
# The servers and their folder are always removed at the end. The script exits with the command's exit code.
# Several instances can run at once. There is no kubelet and no controller: a test writes the status of pods itself.
#
# If KUBECONFIG is already set, the script uses that cluster: it applies the CRDs and starts no server.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
crds=$here/../../../config/crd/primehub.io.yaml

if (($# == 0)); then
  echo "usage: $0 COMMAND…" >&2
  exit 2
fi

if [[ -n ${KUBECONFIG:-} ]]; then
  kubectl apply -f "$crds" >&2
  exec "$@"
fi

programs=$("$here/install.sh")
folder=$(mktemp -d "${TMPDIR:-/tmp}/ludgate-kube.XXXXXX")
etcd=
server=
command=

# Stops a process of this script, and waits until it has exited.
# shellcheck disable=SC2317 # The trap calls it.
end() {
  [[ -n $1 ]] || return 0
  kill -TERM "$1" 2>/dev/null || true
  # The servers need a second at most, and their data may be lost.
  local _
  for _ in {1..50}; do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# shellcheck disable=SC2317 # The trap calls it.
clean() {
  trap '' INT TERM HUP
  end "$command"
  end "$server"
  end "$etcd"
  rm -rf "$folder"
}
trap clean EXIT
# The exit runs `clean`.
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Starts a program in the background, with its output in FOLDER/NAME.log. It gets its own session: otherwise Ctrl-C
# would stop the servers before the command, and the command would report a second failure. pdeathsig kills it if
# this script is killed by SIGKILL, which no trap can handle.
start() {
  local name=$1
  shift
  (cd "$folder" && exec setsid setpriv --pdeathsig KILL "$programs/$name" "$@") >"$folder/$name.log" 2>&1 &
}

# Prints the reason and the logs, and exits.
give_up() {
  {
    echo "$1"
    local log
    for log in "$folder"/*.log; do
      echo "--- the end of $(basename "$log")"
      tail -n 40 "$log"
    done
  } >&2
  exit 1
}

# Waits until a check passes and returns 0; returns 1 if the process exited first. Both servers together need ten
# seconds on an idle machine. Two minutes allow for a concurrent build.
await() {
  local process=$1
  shift
  local until=$((SECONDS + 120))
  while ! "$@" >/dev/null 2>&1; do
    kill -0 "$process" 2>/dev/null || return 1
    ((SECONDS < until)) || give_up "not ready after two minutes: $*"
    sleep 0.1
  done
}

# etcd listens on a unix socket in the folder. So it needs no port, and other users cannot reach it. etcd accepts such
# an address only as host and port; the files have these names.
start etcd --data-dir "$folder/etcd" --unsafe-no-fsync \
  --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \
  --listen-peer-urls unix://peer:0
etcd=$!
await "$etcd" test -S "$folder/client:0" || give_up 'etcd did not start'

openssl genrsa -out "$folder/service-accounts.key" 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,admin,system:masters" >"$folder/tokens.csv"

kubeconfig=$folder/kubeconfig
kube() { KUBECONFIG=$kubeconfig "$programs/kubectl" "$@"; }

# The server cannot choose a port itself. If a port is in use, for example by a concurrent run, the server exits at
# once, and the loop tries another. Ports are below 32768, the start of Linux's range for outgoing connections.
for attempt in {1..10}; do
  port=$((20000 + RANDOM % 12000))
  start kube-apiserver --etcd-servers=unix://client:0 --secure-port="$port" --bind-address=127.0.0.1 \
    --cert-dir="$folder/certificates" --token-auth-file="$folder/tokens.csv" --authorization-mode=RBAC \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$folder/service-accounts.key" \
    --service-account-signing-key-file="$folder/service-accounts.key" \
    --service-cluster-ip-range=10.0.0.0/24 --allow-privileged=true --disable-admission-plugins=ServiceAccount
  server=$!
  # Self-signed, so it is also the CA. The server writes it before it opens the port.
  certificate=$folder/certificates/apiserver.crt
  if await "$server" test -s "$certificate"; then
    cat >"$kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
current-context: test
contexts:
  - name: test
    context: { cluster: test, user: admin, namespace: default }
clusters:
  - name: test
    cluster:
      server: https://127.0.0.1:$port
      certificate-authority-data: $(base64 -w0 "$certificate")
users:
  - name: admin
    user: { token: $token }
KUBECONFIG
    chmod 600 "$kubeconfig"
    await "$server" kube get --raw /readyz && break
  fi
  if ((attempt == 10)) || ! grep -q 'address already in use' "$folder/kube-apiserver.log"; then
    give_up 'kube-apiserver did not start'
  fi
done

kube apply -f "$crds" >/dev/null
# The server refuses objects of a new kind until its definition is established.
kube wait --for=condition=established --timeout=60s -f "$crds" >/dev/null

# In the background, because otherwise the trap of a signal would run only after the command. A background command
# loses standard input and Ctrl-C; the redirection and env restore them.
KUBECONFIG=$kubeconfig PATH=$programs:$PATH env --default-signal=INT,QUIT "$@" <&0 &
command=$!
code=0
wait "$command" || code=$?
command=
exit "$code"
