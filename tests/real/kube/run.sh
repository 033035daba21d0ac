#!/usr/bin/env bash
# Runs a command with a Kubernetes API server of its own:
#
#   tests/real/kube/run.sh COMMAND…
#
# The server is real: etcd and kube-apiserver from the folder that tests/real/kube/install.sh prints, with RBAC
# and the CRDs of config/crd. Of kube-controller-manager it runs five controllers: garbage collection, protection of
# claims in use, and for namespaces their deletion, quotas and default accounts. The command gets an admin's KUBECONFIG,
# a PATH with that folder's kubectl, and in LUDGATE_AUDIT_LOG the file with the requests of service accounts.
# The servers and their folder are always removed at the end. The script exits with the command's exit code.
# Several instances can run at once. There is no kubelet and no controller of Deployments: a test writes pods and their
# status itself.
#
# If KUBECONFIG is already set, the script uses that cluster: it applies the CRDs and starts no server.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/real/kube/processes.sh
. "$here/processes.sh"
# shellcheck source=tests/real/kube/api_server.sh
. "$here/api_server.sh"

if (($# == 0)); then
  echo "usage: $0 COMMAND…" >&2
  exit 2
fi

if [[ -n ${KUBECONFIG:-} ]]; then
  kubectl apply --validate=false -f "$crds" -f "$routes" >&2
  exec "$@"
fi

programs=$("$here/install.sh")
folder=$(mktemp -d "${TMPDIR:-/tmp}/ludgate-kube.XXXXXX")
etcd=
server=
controllers=
command=

# shellcheck disable=SC2317 # The trap calls it.
clean() {
  trap '' INT TERM HUP
  end "$command"
  end "$controllers"
  end "$server"
  end "$etcd"
  rm -rf "$folder"
}
trap clean EXIT
# The exit runs `clean`.
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Both servers together need ten seconds on an idle machine.
start_etcd
prepare_api_server

# The server cannot choose a port itself. If a port is in use, for example by a concurrent run, the server exits at
# once, and the loop tries another. Ports are below 32768, the start of Linux's range for outgoing connections.
for attempt in {1..10}; do
  port=$((20000 + RANDOM % 12000))
  start_api_server 127.0.0.1 "$port" --service-cluster-ip-range=10.0.0.0/24 \
    --disable-admission-plugins=ServiceAccount && break
  if ((attempt == 10)) || ! grep -q 'address already in use' "$folder/kube-apiserver.log"; then
    give_up 'kube-apiserver did not start'
  fi
done
apply_crds "$crds" "$routes"

# It starts after the definitions: the garbage collector looks for new kinds only every 30 seconds.
wanted=garbagecollector,namespace,pvc-protection,resourcequota,serviceaccount
start kube-controller-manager --kubeconfig="$kubeconfig" --controllers="$wanted" \
  --leader-elect=false --port=0 --secure-port=0 --kube-api-qps=100 --kube-api-burst=200
controllers=$!

# In the background, because otherwise the trap of a signal would run only after the command. A background command
# loses standard input and Ctrl-C; the redirection and env restore them.
KUBECONFIG=$kubeconfig LUDGATE_AUDIT_LOG=$audit_log PATH=$programs:$PATH env --default-signal=INT,QUIT "$@" <&0 &
command=$!
code=0
wait "$command" || code=$?
command=
exit "$code"
