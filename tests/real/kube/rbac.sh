#!/usr/bin/env bash
# Checks with a real API server that the Roles of config/rbac grant exactly the documented rights. It queries every verb
# on every resource:
#
#   tests/real/kube/run.sh tests/real/kube/rbac.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

# Separate namespaces, so that the script can run on a cluster in use.
namespace=ludgate-rbac-$$
other=ludgate-rbac-other-$$
trap 'kubectl delete namespace --wait=false "$namespace" "$other" >/dev/null' EXIT
kubectl create namespace "$namespace" >/dev/null
kubectl create namespace "$other" >/dev/null

shipped() {
  sed "s/namespace: hub\$/namespace: $namespace/" "config/rbac/$1.yaml" | kubectl -n "$namespace" apply -f - >/dev/null
}

account=ludgate
# Prints a ServiceAccount's rights in a namespace, one "RESOURCE VERB…" per line.
# It omits rights on non-resource URLs, which every account has.
rights() {
  kubectl -n "$2" auth can-i --list --no-headers --as="system:serviceaccount:$namespace:$1" \
    --as-group=system:serviceaccounts --as-group=system:authenticated |
    # Columns: resources, non-resource URLs, resource names, verbs.
    sed -E 's/^([^ ]+) +\[[^]]*\] +\[[^]]*\] +\[([^]]*)\]$/\1 \2/; /^ /d' | LC_ALL=C sort
}

failed=0
# Compares the account's rights, minus those of an account without any Role.
expect() {
  local what=$1 where=$2 wanted=$3 got
  got=$(LC_ALL=C comm -13 <(rights nobody "$where") <(rights "$account" "$where"))
  if [[ $got == "$wanted" ]]; then
    echo "as expected: $what"
  else
    failed=1
    printf 'NOT as expected: %s\n--- expected\n%s\n--- granted\n%s\n' "$what" "$wanted" "$got"
  fi
}

# Checks one right, as the server authorizes calls.
expect_right() {
  local answer=$1 verb=$2 resource=$3 part got
  # kubectl treats the part after a slash as a name.
  part=${resource#"${resource%%/*}"}
  got=$(kubectl -n "$namespace" auth can-i "$verb" "${resource%%/*}" --subresource="${part#/}" \
    --as="system:serviceaccount:$namespace:$account" 2>/dev/null || true)
  if [[ $got != "$answer" ]]; then
    failed=1
    echo "NOT as expected: $verb $resource: $got"
  fi
}

reads='endpointslices.discovery.k8s.io list watch
phapplications.primehub.io list watch'

shipped gateway
expect 'gateway.yaml' "$namespace" "$reads"
expect 'gateway.yaml, in another namespace: no rights' "$other" ''
for verb in get list watch create update patch delete deletecollection; do
  answer=no
  [[ $verb != list && $verb != watch ]] || answer=yes
  expect_right "$answer" "$verb" phapplications.primehub.io
  expect_right "$answer" "$verb" endpointslices.discovery.k8s.io
  for resource in phapplications.primehub.io/status phapptemplates.primehub.io pods pods/log pods/exec secrets \
    configmaps services events serviceaccounts/token deployments.apps roles.rbac.authorization.k8s.io; do
    expect_right no "$verb" "$resource"
  done
done

shipped logs
expect 'gateway.yaml and logs.yaml' "$namespace" "$reads"$'\npods get\npods/log get'
expect_right yes get pods
expect_right yes get pods/log
expect_right no list pods
expect_right no watch pods
expect_right no create pods/exec

account=ludgate-controller
shipped controller
expect 'controller.yaml' "$namespace" 'datasets.primehub.io list watch
deployments.apps get list watch create patch
events.events.k8s.io create patch
instancetypes.primehub.io list watch
leases.coordination.k8s.io get create update
networkpolicies.networking.k8s.io get list watch create patch delete
phapplications.primehub.io list watch
phapplications.primehub.io/finalizers update
phapplications.primehub.io/status patch
pods list watch
replicasets.apps list watch
services get list watch create patch delete'
expect 'controller.yaml, in another namespace: no rights' "$other" ''
for right in 'get secrets' 'create pods' 'create pods/exec' 'get pods/log' 'create serviceaccounts/token' \
  'create rolebindings.rbac.authorization.k8s.io' 'delete deployments.apps' 'patch phapplications.primehub.io' \
  'get datasets.primehub.io' 'patch datasets.primehub.io'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done

# Without controller.yaml, as for a controller of viewers alone.
kubectl -n "$namespace" delete rolebinding ludgate-controller ludgate-gateway >/dev/null
shipped viewers
expect 'viewers.yaml' "$namespace" 'deployments.apps get list watch create patch
events.events.k8s.io create patch
leases.coordination.k8s.io get create update
networkpolicies.networking.k8s.io get list watch create patch
persistentvolumeclaims list watch
pods list watch
pvcviewers.kubeflow.org list watch delete
pvcviewers.kubeflow.org/finalizers update
pvcviewers.kubeflow.org/status patch
services get list watch create patch delete'
expect 'viewers.yaml, in another namespace: no rights' "$other" ''
for right in 'get secrets' 'create pods' 'create pods/exec' 'get pods/log' 'create serviceaccounts/token' \
  'create rolebindings.rbac.authorization.k8s.io' 'delete deployments.apps' 'delete networkpolicies.networking.k8s.io' \
  'delete persistentvolumeclaims' 'patch pvcviewers.kubeflow.org'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl -n "$namespace" delete rolebinding ludgate-viewers >/dev/null
shipped viewer-routes
expect 'viewer-routes.yaml' "$namespace" 'httproutes.gateway.networking.k8s.io get list watch create patch delete
virtualservices.networking.istio.io get list watch create patch delete'

kubectl -n "$namespace" delete rolebinding ludgate-viewer-routes >/dev/null
shipped installations
expect 'installations.yaml, in another namespace' "$other" 'applicationdefinitions.apps.kubermatic.k8c.io get list watch
clusterroles.rbac.authorization.k8s.io bind
daemonsets.apps list watch
deployments.apps list watch
namespaces list watch create patch delete
rolebindings.rbac.authorization.k8s.io create
rolebindings.rbac.authorization.k8s.io get patch delete
secrets list watch
serviceaccounts create
serviceaccounts patch
serviceaccounts/token create
statefulsets.apps list watch'
for right in 'get secrets' 'patch secrets' 'create applicationinstallations.apps.kubermatic.k8c.io' \
  'patch applicationinstallations.apps.kubermatic.k8c.io/status'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right yes $right
done
for right in 'create secrets' 'delete secrets' 'create pods' 'create serviceaccounts/token' 'patch serviceaccounts' \
  'patch rolebindings.rbac.authorization.k8s.io' 'bind clusterroles.rbac.authorization.k8s.io' \
  'create clusterrolebindings.rbac.authorization.k8s.io' 'patch applicationdefinitions.apps.kubermatic.k8c.io'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl delete clusterrole,clusterrolebinding ludgate-installations ludgate-gateway-installations >/dev/null
kubectl -n "$namespace" delete rolebinding ludgate-installations ludgate-gateway-installations >/dev/null

# The gateway's part, and the namespaces by their names.
account=ludgate
kubectl -n "$namespace" delete rolebinding ludgate-logs >/dev/null
expect 'viewers.yaml, for the gateway' "$namespace" 'pvcviewers.kubeflow.org list watch'
sed "s/resourceNames: \[hub\]/resourceNames: [$namespace]/; s/namespace: hub\$/namespace: $namespace/" \
  config/rbac/viewer-namespaces.yaml | kubectl apply -f - >/dev/null
expect 'viewer-namespaces.yaml' "$namespace" 'namespaces list watch
pvcviewers.kubeflow.org list watch'
for right in no:get:$namespace yes:list:$namespace yes:watch:$namespace no:patch:$namespace no:delete:$namespace \
  no:get:$other no:list:$other no:watch:$other; do
  IFS=: read -r answer verb name <<<"$right"
  got=$(kubectl auth can-i "$verb" "namespaces/$name" --as="system:serviceaccount:$namespace:$account" 2>/dev/null || true)
  if [[ $got != "$answer" ]]; then
    failed=1
    echo "NOT as expected: $verb namespaces/$name: $got"
  fi
done
kubectl delete clusterrole,clusterrolebinding ludgate-viewer-namespaces >/dev/null
shipped gateway-labs
expect 'gateway-labs.yaml, in another namespace' "$other" 'endpointslices.discovery.k8s.io list watch'
for right in 'get endpointslices.discovery.k8s.io' 'patch endpointslices.discovery.k8s.io' 'list services' 'list pods' \
  'list namespaces'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl delete clusterrole,clusterrolebinding ludgate-gateway-labs >/dev/null

account=ludgate-controller
# The webhook's own objects, by their names, and nothing else.
shipped webhook
granted=$(rights ludgate-controller "$namespace" | grep -E 'secrets|webhookconfigurations' || true)
if [[ $granted != 'mutatingwebhookconfigurations.admissionregistration.k8s.io get patch
secrets get patch
validatingwebhookconfigurations.admissionregistration.k8s.io get patch' ]]; then
  failed=1
  printf 'NOT as expected: webhook.yaml:\n%s\n' "$granted"
fi
for right in 'get secrets' 'patch secrets' 'list secrets' 'patch validatingwebhookconfigurations.admissionregistration.k8s.io' \
  'delete validatingwebhookconfigurations.admissionregistration.k8s.io'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl delete clusterrole,clusterrolebinding ludgate-controller-webhook >/dev/null

account=ludgate-labs
shipped labs
# In the namespace of a lab, Secrets are written and not read.
expect 'labs.yaml, in another namespace' "$other" 'configmaps list watch create patch
events list watch
jobs.batch list watch create patch delete
namespaces get list watch create delete
networkpolicies.networking.k8s.io list watch create patch delete
nodes list watch
persistentvolumeclaims list watch create patch delete
pods get list watch create patch delete
resourcequotas list watch create patch
secrets create patch
serviceaccounts get list watch
services list watch create patch delete'
for right in 'get secrets' 'get leases.coordination.k8s.io' 'update leases.coordination.k8s.io'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right yes $right
done
for right in 'list secrets' 'delete secrets' 'create pods/exec' 'get pods/log' 'create serviceaccounts/token' \
  'create rolebindings.rbac.authorization.k8s.io' 'delete configmaps' 'patch nodes'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl delete clusterrole,clusterrolebinding ludgate-labs >/dev/null

account=ludgate-api
shipped api
expect 'api.yaml' "$namespace" 'datasets.primehub.io list
instancetypes.primehub.io list
phapplications.primehub.io get list create patch delete
phapptemplates.primehub.io get list
pods get list
pods/log get
services get'
expect 'api.yaml, in another namespace: no rights' "$other" ''
for right in 'get secrets' 'create pods' 'create pods/exec' 'list services' 'patch phapplications.primehub.io/status' \
  'delete phapptemplates.primehub.io' 'get deployments.apps' 'create serviceaccounts/token'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
for verb in create patch; do expect_right no "$verb" phapptemplates.primehub.io; done

shipped template-import
for verb in get list create patch; do expect_right yes "$verb" phapptemplates.primehub.io; done
for verb in watch update delete deletecollection; do expect_right no "$verb" phapptemplates.primehub.io; done

kubectl -n "$namespace" delete rolebinding ludgate-template-import >/dev/null
kubectl -n "$namespace" delete rolebinding ludgate-api >/dev/null
shipped api-installations
expect 'api-installations.yaml, in another namespace' "$other" \
  'applicationdefinitions.apps.kubermatic.k8c.io get list create patch delete
applicationinstallations.apps.kubermatic.k8c.io get list create patch delete
namespaces create
subjectaccessreviews.authorization.k8s.io create'
for right in 'get secrets' 'list secrets' 'get namespaces' 'delete namespaces' \
  'patch applicationinstallations.apps.kubermatic.k8c.io/status'; do
  # shellcheck disable=SC2086 # A verb and a resource.
  expect_right no $right
done
kubectl delete clusterrole,clusterrolebinding ludgate-api-installations >/dev/null
exit "$failed"
