#!/usr/bin/env bash
# Starts a cluster and runs a command with it, as the first process of cluster.sh's namespaces:
#
#   boot.sh PROGRAMS FOLDER CGROUP NODES HOLLOW COMMAND…
#
# When this script ends, the kernel ends all other processes.
set -euo pipefail
programs=$1 folder=$2 cgroup=$3 nodes=$4 hollow=$5
shift 5
kube_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/real/kube/processes.sh
. "$kube_folder/processes.sh"
# shellcheck source=tests/real/kube/api_server.sh
. "$kube_folder/api_server.sh"

# Addresses, all inside of the network namespace. Node N has 10.240.0.N, and its pods are in 10.244.N.0/24.
node_address=10.240.0.1
api_port=6443
services=10.96.0.0/16
name_server=10.96.0.10
pods=10.244.0.0/16

# A bridge without ports has the nodes' addresses. The default route lets processes outside of pods use the addresses of
# Services, which kube-proxy translates. One kube-proxy is enough, since the nodes share the network.
network() {
  ip link set lo up
  ip link add node0 type bridge
  local number
  for ((number = 1; number <= nodes; number++)); do
    ip addr add "10.240.0.$number/32" dev node0
  done
  ip link set node0 up
  ip route add default dev node0 src "$node_address"
  echo 1 >/proc/sys/net/ipv4/ip_forward
}

control_plane() {
  start_etcd
  prepare_api_server
  start_api_server "$node_address" "$api_port" --service-cluster-ip-range="$services" \
    --kubelet-preferred-address-types=InternalIP || give_up 'kube-apiserver did not start'
  start kube-controller-manager --kubeconfig="$kubeconfig" --root-ca-file="$folder/certificates/apiserver.crt" \
    --service-account-private-key-file="$folder/service-accounts.key" --leader-elect=false --port=0 --secure-port=0 \
    --kube-api-qps=100 --kube-api-burst=200
  start kube-scheduler --kubeconfig="$kubeconfig" --leader-elect=false --port=0 --secure-port=0
  apply_crds "$crds" "$instance_types" "$datasets"
  names
}

# The names of Services, for pods at the address that kubelet tells them, and for all other processes.
names() {
  start_as dns python3 -B "$kube_folder/cluster/dns.py" "$node_address" "https://$node_address:$api_port" \
    "$folder/certificates/apiserver.crt" "$folder/tokens.csv"
  await "$server" kube get namespace kube-system || give_up 'kube-apiserver ended'
  kube apply -f - >/dev/null <<NAMES
apiVersion: v1
kind: Service
metadata: { name: kube-dns, namespace: kube-system }
spec:
  clusterIP: $name_server
  ports: [{ name: dns, port: 53, protocol: UDP }]
---
apiVersion: v1
kind: Endpoints
metadata: { name: kube-dns, namespace: kube-system }
subsets:
  - addresses: [{ ip: $node_address }]
    ports: [{ name: dns, port: 53, protocol: UDP }]
NAMES
  printf 'nameserver %s\nsearch svc.cluster.local\noptions ndots:5\n' "$node_address" >"$folder/resolv.conf"
  [[ ! -e /etc/resolv.conf ]] || mount --bind "$folder/resolv.conf" /etc/resolv.conf
}

# The containers of node N, with the socket of containerd in `socket` and its process in `containerds`. Each pod has a
# link of its own to the node. On a shared bridge, answers of a Service's pod to another pod would bypass the
# translation of addresses.
containers() {
  local own=$folder/node-$1
  mkdir -p "$own/cni"
  cat >"$own/cni/10-ptp.conf" <<CNI
{
  "cniVersion": "0.3.1", "name": "pods", "type": "ptp", "ipMasq": false,
  "ipam": {
    "type": "host-local", "subnet": "10.244.$1.0/24", "dataDir": "$own/addresses", "routes": [{ "dst": "0.0.0.0/0" }]
  }
}
CNI
  socket=$own/containerd.sock
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE, runc could not lower the score of a pod's sandbox.
  cat >"$own/containerd.toml" <<CONTAINERD
version = 2
root = "$own/containerd"
state = "$own/containerd-state"
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/busybox:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$(command -v runc)"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$own/cni"
CONTAINERD
  # A kubelet removes the logs in /var/log/pods of pods that it does not know, so each node has a /var/log of its own.
  # What kubelet mounts must appear in containers, so both share the mounts of this namespace.
  mkdir "$own/log"
  # shellcheck disable=SC2016
  start_as "containerd-$1" unshare --mount --propagation slave bash -c \
    'mount --make-rshared / && mount --bind "$1" /var/log && shift && exec "$@"' - "$own/log" \
    containerd --config "$own/containerd.toml"
  containerds[$1]=$!
  await "$!" ctr --address "$socket" version || give_up 'containerd did not start'
}

# The kubelet of node N. All would use the same socket for plug-ins of devices, which no test needs.
kubelet() {
  local own=$folder/node-$1
  cat >"$own/kubelet.yaml" <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.240.0.$1
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup/node-$1
clusterDNS: [$name_server]
clusterDomain: cluster.local
enforceNodeAllocatable: []
evictionHard: { memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1% }
failSwapOn: false
featureGates: { DevicePlugins: false }
healthzPort: 0
imageGCHighThresholdPercent: 100
# The default, five calls a second, delays the end of pods when many tests run.
kubeAPIBurst: 200
kubeAPIQPS: 100
nodeStatusUpdateFrequency: 5s
# A pod that has ended is removed at its next sync, or else after ten seconds.
syncFrequency: 1s
KUBELET
  start_as "kubelet-$1" nsenter --mount="/proc/${containerds[$1]}/ns/mnt" "$programs/kubelet" \
    --kubeconfig="$kubeconfig" --config="$own/kubelet.yaml" --node-ip="10.240.0.$1" \
    --hostname-override="node-$1" --container-runtime=remote \
    --container-runtime-endpoint="unix://$own/containerd.sock" --root-dir="$own/kubelet" \
    --cert-dir="$own/kubelet-pki" --volume-plugin-dir="$own/volume-plugins"
}

start_nodes() {
  local number socket containerds=()
  LUDGATE_CONTAINERDS=
  for ((number = 1; number <= nodes; number++)); do
    containers "$number"
    LUDGATE_CONTAINERDS="$socket $LUDGATE_CONTAINERDS"
  done
  export LUDGATE_CONTAINERDS
  "$kube_folder/cluster/busybox_image.sh" "$folder/busybox.tar"
  "$kube_folder/cluster/load.sh" "$folder/busybox.tar"
  for ((number = 1; number <= nodes; number++)); do
    kubelet "$number"
  done
  if [[ ${LUDGATE_KUBE_PROXY:-} != no ]]; then
    start kube-proxy --kubeconfig="$kubeconfig" --hostname-override=node-1 --cluster-cidr="$pods" \
      --proxy-mode=iptables --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
      --conntrack-tcp-timeout-close-wait=0 --healthz-bind-address=127.0.0.1:10256 \
      --metrics-bind-address=127.0.0.1:10249
  fi
  for ((number = 1; number <= hollow; number++)); do
    hollow_node "$number"
  done
}

# A kubelet without containers. Its socket in /tmp has a fixed name, so each hollow node gets a /tmp of its own.
hollow_node() {
  local own=$folder/hollow-$1
  mkdir -p "$own"
  cp "$kubeconfig" "$own/kubeconfig"
  # shellcheck disable=SC2016
  start_as "hollow-$1" unshare --mount bash -c 'mount --bind "$1" /tmp && shift && exec "$@"' - "$own" \
    "$programs/kubemark" --morph=kubelet --name="hollow-$1" --kubeconfig=/tmp/kubeconfig \
    --kubelet-port=$((11000 + $1)) --kubelet-read-only-port=$((15000 + $1))
}

all_ready() {
  [[ $(kube get nodes --no-headers | grep -c ' Ready') == $((nodes + hollow)) ]]
}

network
control_plane
start_nodes
await "$server" all_ready || give_up 'kube-apiserver ended'
export KUBECONFIG=$kubeconfig LUDGATE_AUDIT_LOG=$audit_log PATH=$programs:$PATH
export LUDGATE_NODE_ADDRESS=$node_address
export CONTAINERD_ADDRESS=$folder/node-1/containerd.sock
code=0
"$@" || code=$?
# The servers' logs, for whoever looks for the reason of a failed test.
[[ -z ${LUDGATE_CLUSTER_LOGS:-} ]] || cp -r "$folder"/*.log "$LUDGATE_CLUSTER_LOGS"/
exit "$code"
