#!/usr/bin/env bash
# Runs a command with a Kubernetes API server of its own:
#
#   tests/real/kube/run.sh COMMAND…
#
# The server is real: etcd and kube-apiserver from the folder that tests/real/kube/install.sh prints, with RBAC
# and the CRDs of config/crd. The command gets KUBECONFIG, an admin's, and a PATH with that folder's kubectl.
# Whatever becomes of it, the servers are stopped and their folder is removed; its exit code is this script's.
# Any number may run at once. There is no kubelet and no controller: a test writes the status of pods itself.
#
# Where KUBECONFIG is set already, that cluster is used: the CRDs are applied to it, and nothing is started.
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

# Ends a process that was started here, and returns when it is gone.
# shellcheck disable=SC2317 # The trap calls it.
end() {
  [[ -n $1 ]] || return 0
  kill -TERM "$1" 2>/dev/null || true
  # The servers need a second at most, and nothing is in them that is worth a longer wait.
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

# Starts a program in the background, its output in FOLDER/NAME.log. In a session of its own, or Ctrl-C would end
# the servers before the command, which then fails for a second reason. Killed with this script, should that be
# killed in a way that no trap sees.
start() {
  local name=$1
  shift
  (cd "$folder" && exec setsid setpriv --pdeathsig KILL "$programs/$name" "$@") >"$folder/$name.log" 2>&1 &
}

# Says why there is no server, and ends.
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

# Waits until a check passes: 0. 1: the process ended first. Two minutes are for a machine that is busy with a
# build; alone, both servers need ten seconds together.
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

# etcd listens on a socket in the folder, so it needs no port and nobody else on the machine can reach it. It
# takes such an address only in the form of a host and a port: these are the names of the files.
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

# The server cannot choose a port itself. One that is taken, also by another run a moment ago, ends it at once,
# and the next is tried. Below 32768, where Linux takes the ports of outgoing connections from.
for attempt in {1..10}; do
  port=$((20000 + RANDOM % 12000))
  start kube-apiserver --etcd-servers=unix://client:0 --secure-port="$port" --bind-address=127.0.0.1 \
    --cert-dir="$folder/certificates" --token-auth-file="$folder/tokens.csv" --authorization-mode=RBAC \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$folder/service-accounts.key" \
    --service-account-signing-key-file="$folder/service-accounts.key" \
    --service-cluster-ip-range=10.0.0.0/24 --allow-privileged=true --disable-admission-plugins=ServiceAccount
  server=$!
  # Self-signed, so it is its own authority. It is written before the port is opened.
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
# An object of a new kind is refused until the server has taken up its definition.
kube wait --for=condition=established --timeout=60s -f "$crds" >/dev/null

# In the background, or a signal to this script would wait until the command has ended. What the shell takes from
# a command in the background, its standard input and Ctrl-C, it gets back.
KUBECONFIG=$kubeconfig PATH=$programs:$PATH env --default-signal=INT,QUIT "$@" <&0 &
command=$!
code=0
wait "$command" || code=$?
command=
exit "$code"
