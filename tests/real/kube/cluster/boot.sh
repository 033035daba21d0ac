#!/usr/bin/env bash
# Starts a cluster and runs a command with it, as the first process of cluster.sh's namespaces:
#
#   boot.sh PROGRAMS FOLDER CGROUP HOLLOW COMMAND…
#
# When this script ends, the kernel ends all other processes.
set -euo pipefail
programs=$1 folder=$2 cgroup=$3 hollow=$4
shift 4
kube_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tests/real/kube/processes.sh
. "$kube_folder/processes.sh"
# shellcheck source=tests/real/kube/api_server.sh
. "$kube_folder/api_server.sh"

# Addresses, all inside of the network namespace.
node_address=10.240.0.1
api_port=6443
services=10.96.0.0/16
pods=10.244.0.0/24

# A bridge without ports has the node's address. The default route lets processes outside of pods use the addresses of
# Services, which kube-proxy translates.
network() {
  ip link set lo up
  ip link add node0 type bridge
  ip addr add "$node_address/32" dev node0
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
}

# Each pod has a link of its own to the node. On a shared bridge, answers of a Service's pod to another pod would bypass
# the translation of addresses.
containers() {
  mkdir -p "$folder/cni"
  cat >"$folder/cni/10-ptp.conf" <<CNI
{
  "cniVersion": "0.3.1", "name": "pods", "type": "ptp", "ipMasq": false,
  "ipam": {
    "type": "host-local", "subnet": "$pods", "dataDir": "$folder/addresses", "routes": [{ "dst": "0.0.0.0/0" }]
  }
}
CNI
  # restrict_oom_score_adj: without CAP_SYS_RESOURCE, runc could not lower the score of a pod's sandbox.
  cat >"$folder/containerd.toml" <<CONTAINERD
version = 2
root = "$folder/containerd"
state = "$folder/containerd-state"
[grpc]
  address = "$folder/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/busybox:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "$(command -v runc)"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$folder/cni"
CONTAINERD
  start_as containerd containerd --config "$folder/containerd.toml"
  await "$!" ctr version || give_up 'containerd did not start'
  "$kube_folder/cluster/busybox_image.sh" "$folder/busybox.tar"
  ctr -n k8s.io images import "$folder/busybox.tar" >/dev/null
}

node() {
  cat >"$folder/kubelet.yaml" <<KUBELET
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node_address
authentication: { anonymous: { enabled: true }, webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
enforceNodeAllocatable: []
evictionHard: { memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1% }
failSwapOn: false
healthzPort: 0
imageGCHighThresholdPercent: 100
# The default, five calls a second, delays the end of pods when many tests run.
kubeAPIBurst: 200
kubeAPIQPS: 100
nodeStatusUpdateFrequency: 5s
syncFrequency: 5s
KUBELET
  start kubelet --kubeconfig="$kubeconfig" --config="$folder/kubelet.yaml" --node-ip="$node_address" \
    --hostname-override=node-1 --container-runtime=remote \
    --container-runtime-endpoint="unix://$folder/containerd.sock" --root-dir="$folder/kubelet" \
    --cert-dir="$folder/kubelet-pki" --volume-plugin-dir="$folder/volume-plugins"
  start kube-proxy --kubeconfig="$kubeconfig" --hostname-override=node-1 --cluster-cidr="$pods" --proxy-mode=iptables \
    --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 \
    --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249
  local number
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
  [[ $(kube get nodes --no-headers | grep -c ' Ready') == $((1 + hollow)) ]]
}

# What kubelet mounts must appear in containers.
mount --make-rshared /
export CONTAINERD_ADDRESS=$folder/containerd.sock
network
control_plane
containers
node
await "$server" all_ready || give_up 'kube-apiserver ended'
export KUBECONFIG=$kubeconfig LUDGATE_AUDIT_LOG=$audit_log PATH=$programs:$PATH
code=0
"$@" || code=$?
# The servers' logs, for whoever looks for the reason of a failed test.
[[ -z ${LUDGATE_CLUSTER_LOGS:-} ]] || cp -r "$folder"/*.log "$LUDGATE_CLUSTER_LOGS"/
exit "$code"
