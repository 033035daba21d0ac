#!/usr/bin/env bash
# Runs a command with a whole Kubernetes cluster of its own:
#
#   tests/real/kube/cluster.sh [--nodes COUNT] [--hollow COUNT] COMMAND…
#
# The cluster has etcd, API server, controller manager, scheduler, kube-proxy and one node, or as many as --nodes says:
# each a kubelet with a containerd of its own, and runc (tests/real/kube/cluster/boot.sh). Pods are real. With --hollow
# it has so many more nodes of kubemark, whose pods become Ready but run nothing. The command gets an admin's
# KUBECONFIG, a PATH with kubectl and `ctr`, in LUDGATE_AUDIT_LOG the file with the requests of service accounts, and in
# LUDGATE_CONTAINERDS the sockets of containerd, for cluster/load.sh. In LUDGATE_NODE_ADDRESS it gets the address at
# which pods reach it. Names of Services such as `lab.hub` have addresses, for pods and for the command.
# With LUDGATE_KUBE_PROXY=no nothing translates the addresses of Services: for thousands of pods on hollow nodes that
# takes half a processor, and none of them answers.
#
# The cluster and the command run in network, mount and process namespaces of their own. So several clusters can run at
# once, with the same addresses and ports, and all of a cluster ends with its command. The command has no network beyond
# the cluster, but sees the machine's files.
#
# Needs Debian 12 as root, with cgroup v1. install.sh builds the programs once.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

nodes=1
hollow=0
while true; do
  case ${1:-} in
    --nodes) nodes=${2:?a number of nodes} ;;
    --hollow) hollow=${2:?a number of hollow nodes} ;;
    *) break ;;
  esac
  shift 2
done
if (($# == 0)); then
  echo "usage: $0 [--nodes COUNT] [--hollow COUNT] COMMAND…" >&2
  exit 2
fi

programs=$("$here/install.sh" cluster)
folder=$(mktemp -d "${TMPDIR:-/tmp}/ludgate-cluster.XXXXXX")
# In each hierarchy of cgroups, the parent of every kubelet's root. A kubelet removes cgroups of pods that it does not
# know, so neither clusters nor nodes may share one.
cgroup=$(basename "$folder")
cluster=

# Removes a cgroup and those below it. All their processes have ended.
remove_cgroup() {
  find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
}

# shellcheck disable=SC2317 # The trap calls it.
clean() {
  trap '' INT TERM HUP
  if [[ -n $cluster ]]; then
    # The namespaces end with their first process.
    kill -KILL "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
  fi
  local hierarchy
  for hierarchy in /sys/fs/cgroup/*/"$cgroup"; do
    [[ ! -d $hierarchy ]] || remove_cgroup "$hierarchy"
  done
  rm -rf "$folder"
}
trap clean EXIT
# The exit runs `clean`.
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# Makes a cgroup in a hierarchy. That of cpusets gives a new one no processor, and kubelet cannot use it then.
make_cgroup() {
  local hierarchy=$1 made=$1$2
  mkdir "$made"
  if [[ -e $made/cpuset.cpus ]]; then
    cat "${hierarchy}cpuset.cpus" >"$made/cpuset.cpus"
    cat "${hierarchy}cpuset.mems" >"$made/cpuset.mems"
  fi
}

for hierarchy in /sys/fs/cgroup/*/; do
  make_cgroup "$hierarchy" "$cgroup"
  for ((number = 1; number <= nodes; number++)); do
    make_cgroup "$hierarchy" "$cgroup/node-$number"
  done
done

# In the background, because otherwise the trap of a signal would run only after the command. A background command
# loses standard input and Ctrl-C; the redirection and env restore them.
env --default-signal=INT,QUIT setpriv --pdeathsig KILL \
  unshare --net --mount --pid --fork --kill-child=KILL --mount-proc --propagation private \
  "$here/cluster/boot.sh" "$programs" "$folder" "$cgroup" "$nodes" "$hollow" "$@" <&0 &
cluster=$!
code=0
wait "$cluster" || code=$?
cluster=
exit "$code"
