#!/usr/bin/env bash
# Installs the Kubernetes programs of the tests and prints their folder:
#
#   tests/real/kube/install.sh           `etcd`, `kube-apiserver`, `kube-controller-manager` and `kubectl`
#   tests/real/kube/install.sh cluster   the programs of a node too, and Debian's packages for it (containerd, runc, …)
#
# If KUBEBUILDER_ASSETS names a folder with the first ones, `install.sh` uses that. The folders of envtest have no
# kube-controller-manager.
# Otherwise, on Debian 12 as root or with sudo, it builds Debian's source package once (two cores: about six minutes,
# and six more for `cluster`) and caches the result in ${XDG_CACHE_HOME:-~/.cache}/ludgate/kube. Standard output has
# only the folder's name; the rest goes to standard error.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }

as_root=()
if [[ $(id -u) != 0 ]]; then
  as_root=(sudo)
fi

# Installs packages with apt-get; fails if that is impossible.
install() {
  have apt-get && { [[ $(id -u) == 0 ]] || have sudo; } || return
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq &&
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "$@"
}

built=(kube-apiserver kube-controller-manager)
# Further tools of the tests: `ip` for the network of pods, `openssl` for the keys of service accounts.
beside=()
have ip || beside+=(iproute2)
have openssl || beside+=(openssl)
have redis-server || beside+=(redis-server)
case ${1:-} in
  '') ;;
  cluster)
    built+=(kube-scheduler kubelet kube-proxy kubemark)
    have containerd || beside+=(containerd)
    have runc || beside+=(runc)
    have iptables || beside+=(iptables)
    have conntrack || beside+=(conntrack)
    [[ -x /bin/busybox ]] || beside+=(busybox-static)
    [[ -x /usr/lib/cni/ptp ]] || beside+=(containernetworking-plugins)
    ;;
  *)
    echo "usage: $0 [cluster]" >&2
    exit 2
    ;;
esac
if ((${#beside[@]})); then
  install "${beside[@]}" >&2 || {
    echo "missing: ${beside[*]} (Debian's names)" >&2
    exit 1
  }
fi

# Succeeds if a folder has all wanted programs.
whole() {
  local program
  for program in etcd kubectl "${built[@]}"; do
    [[ -x $1/$program ]] || return
  done
}

if [[ -n ${KUBEBUILDER_ASSETS:-} && ${1:-} != cluster ]]; then
  whole "$KUBEBUILDER_ASSETS" || {
    echo "KUBEBUILDER_ASSETS: etcd, kubectl, ${built[*]}: not all are in $KUBEBUILDER_ASSETS" >&2
    exit 1
  }
  echo "$KUBEBUILDER_ASSETS"
  exit 0
fi

kept=${XDG_CACHE_HOME:-$HOME/.cache}/ludgate/kube
if whole "$kept"; then
  echo "$kept"
  exit 0
fi

if ! have apt-get || ! { [[ $(id -u) == 0 ]] || have sudo; }; then
  {
    echo "The tests need a Kubernetes API server. This script can build it only on Debian 12, as root or with sudo."
    echo "Otherwise set KUBEBUILDER_ASSETS to a folder with etcd, kubectl, ${built[*]}."
  } >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The package lists for sources are separate from the system's.
packages() {
  local lists=$work/apt
  mkdir -p "$lists/lists/partial"
  # The mirror in the system's own sources; apt verifies the signatures.
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Release: bookworm' 'Component: main' |
    sed -n 1p)
  [[ -n $mirror ]] || {
    echo "the apt sources of this system contain no mirror of Debian 12 (bookworm main)"
    return 1
  }
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$lists/sources.list"
  local aside=(-o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$lists/lists")
  local wanted=(golang-1.19-go etcd-server golang-github-modern-go-reflect2-dev xz-utils)
  have kubectl || wanted+=(kubernetes-client)
  install "${wanted[@]}"
  apt-get "${aside[@]}" update -qq
  (cd "$work" && apt-get "${aside[@]}" source --download-only -qq kubernetes)
}

# Debian's source has no generated files, so this generates the OpenAPI description as upstream's Makefile does.
build() {
  export GOPATH=$work/go GO111MODULE=off CGO_ENABLED=0 GOCACHE=$work/cache GOFLAGS=
  export PATH=/usr/lib/go-1.19/bin:$PATH
  local source=$GOPATH/src/k8s.io/kubernetes
  mkdir -p "$source"
  tar -xf "$work"/kubernetes_*.orig.tar.* --strip-components=1 -C "$source"
  cd "$source"
  # The vendored version crashes under Go 1.18 and later.
  rm -rf vendor/github.com/modern-go/reflect2
  cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/reflect2

  go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  local described
  described=$(grep -rl --include=doc.go --include=*.go '+k8s:openapi-gen=true' staging/src pkg/apis/abac |
    xargs -n1 dirname | sort -u |
    grep -vE '/(samples?|sample-[a-z]+|examples?|cmd|code-generator)(/|$)|kube-openapi|/openapi/pkg' |
    sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^pkg/#k8s.io/kubernetes/pkg/#' | paste -sd,)
  "$work/openapi-gen" -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
    -p k8s.io/kubernetes/pkg/generated/openapi -o "$GOPATH/src" -r /dev/null -i "$described"

  # The file system of hollow nodes is a fake without modes, which mounts of a subPath ask for.
  local fake=pkg/volume/util/hostutil/fake_hostutil.go
  grep -q 'GetMode(pathname string)' "$fake"
  sed -i '/GetMode(pathname string)/,/^}/s/return .*/return os.ModePerm, nil/' "$fake"

  mkdir -p "$work/out"
  # Upstream's build script takes the version from git. Clients compare it.
  local program variables=k8s.io/kubernetes/vendor/k8s.io/component-base/version
  local version="-X $variables.gitVersion=v1.20.2 -X $variables.gitMajor=1 -X $variables.gitMinor=20"
  for program in "${built[@]}"; do
    [[ -x $kept/$program ]] || go build -ldflags "-s -w $version" -o "$work/out/$program" "./cmd/$program"
  done
  cp "$(command -v etcd)" "$(command -v kubectl)" "$work/out/"
}

{
  echo "building Kubernetes for the tests (once, six to twelve minutes): ${built[*]}"
  packages
  (build)
  # Moved at the end, so an interrupted build leaves no partial result.
  mkdir -p "$kept"
  mv -f "$work"/out/* "$kept"/
} >&2
echo "$kept"
