# An API server with etcd. The script that sources this file has sourced processes.sh.
# shellcheck shell=bash disable=SC2154,SC2034

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A folder, which kubectl accepts as a file.
crds=$here/../../../config/crd
instance_types=$here/instance_types.yaml
datasets=$here/datasets.yaml
routes=$here/routes.yaml

# Starts etcd, with its process id in `etcd`. etcd listens on a unix socket in the folder. So it needs no port, and
# other users cannot reach it. etcd accepts such an address only as host and port; the files have these names.
start_etcd() {
  start etcd --data-dir "$folder/etcd" --unsafe-no-fsync \
    --listen-client-urls unix://client:0 --advertise-client-urls unix://client:0 \
    --listen-peer-urls unix://peer:0
  etcd=$!
  await "$etcd" test -S "$folder/client:0" || give_up 'etcd did not start'
}

# Makes the admin's token, the key of service accounts and the audit policy, before the first start_api_server.
prepare_api_server() {
  openssl genrsa -out "$folder/service-accounts.key" 2048 2>/dev/null
  token=$(openssl rand -hex 16)
  echo "$token,admin,admin,system:masters" >"$folder/tokens.csv"
  kubeconfig=$folder/kubeconfig
  # The requests of service accounts, for unused_rights.py: who, which verb, which resource. All others are the admin's.
  # A watch is logged when it starts.
  audit_log=$folder/audit.jsonl
  cat >"$folder/audit-policy.yaml" <<'POLICY'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - { level: Metadata, userGroups: ["system:serviceaccounts"] }
  - { level: None }
POLICY
}

kube() { KUBECONFIG=$kubeconfig "$programs/kubectl" "$@"; }

# Starts kube-apiserver, with its process id in `server`, and writes the admin's kubeconfig:
#
#   start_api_server ADDRESS PORT MORE-ARGUMENTS…
#
# Returns 1 if it exits before it is ready, such as for a port in use.
start_api_server() {
  local address=$1 port=$2
  shift 2
  start kube-apiserver --etcd-servers=unix://client:0 --secure-port="$port" --bind-address="$address" \
    --cert-dir="$folder/certificates" --token-auth-file="$folder/tokens.csv" --authorization-mode=RBAC \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$folder/service-accounts.key" \
    --service-account-signing-key-file="$folder/service-accounts.key" --allow-privileged=true \
    --audit-policy-file="$folder/audit-policy.yaml" --audit-log-path="$audit_log" --audit-log-maxsize=10000 "$@"
  server=$!
  # Self-signed, so it is also the CA. The server writes it before it opens the port.
  local certificate=$folder/certificates/apiserver.crt
  await "$server" test -s "$certificate" || return
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
      server: https://$address:$port
      certificate-authority-data: $(base64 -w0 "$certificate")
users:
  - name: admin
    user: { token: $token }
KUBECONFIG
  chmod 600 "$kubeconfig"
  await "$server" kube get --raw /readyz
}

# Applies files with CRDs. The server refuses objects of a new kind until its definition is established. An old kubectl
# does not know x-kubernetes-validations, so the server alone validates; it ignores unknown fields.
apply_crds() {
  local file
  for file in "$@"; do
    kube apply --validate=false -f "$file" >/dev/null
    kube wait --for=condition=established --timeout=60s -f "$file" >/dev/null
  done
}
