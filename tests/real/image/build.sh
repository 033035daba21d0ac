#!/usr/bin/env bash
# Builds the container image as the Dockerfile says, and runs it (`make test-image`; Debian 12, as root). The build takes
# about as long as `make optimized`.
#
#   tests/real/image/build.sh [FOLDER]
#
# FOLDER, target/image by default, keeps the images. The script checks:
# - all stages build, with the training, on base images made here (bases.sh);
# - the image has the user, the entry point and the size that the documents name;
# - its program serves as that user, without write access, and exits on SIGTERM;
# - what check.sh checks of the Dockerfile and the program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

store=$(realpath -m "${1:-target/image}")
image=localhost/ludgate:test
limit=$((40 * 1024 * 1024))
mkdir -p "$store"

missing=()
for tool in buildah debootstrap; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if ((${#missing[@]})); then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

buildah() { command buildah --root "$store/images" --runroot "$store/run" --storage-driver vfs "$@"; }
fail() {
  echo "image: $*" >&2
  exit 1
}

tests/real/image/bases.sh "$store"
# Crates that this machine has are not downloaded again.
registry=${CARGO_HOME:-$HOME/.cargo}/registry
mkdir -p "$registry"
buildah bud --isolation chroot --network host --pull-never --volume "$registry:/usr/local/cargo/registry" \
  --tag "$image" .

config() { buildah inspect --type image --format "{{$1}}" "$image"; }
[[ $(config .OCIv1.Config.User) == 65532:65532 ]] || fail "the user is $(config .OCIv1.Config.User)"
[[ $(config .OCIv1.Config.Entrypoint) == '[/usr/local/bin/ludgate]' ]] || fail "the entry point is $(config .OCIv1.Config.Entrypoint)"

container=$(buildah from --pull-never "$image")
clean() {
  buildah umount "$container" >/dev/null 2>&1 || true
  buildah rm "$container" >/dev/null
}
trap clean EXIT
root=$(buildah mount "$container")
[[ -e $root/usr/share/doc/ludgate/copyright ]] || fail 'the licence is missing'
for shell in bin/sh bin/bash usr/bin/sh; do
  [[ ! -e $root/$shell ]] || fail "the image has a shell: $shell"
done
size=$(du -sb "$root" | cut -f1)
echo "the image: $((size / 1024 / 1024)) MiB, its program $(($(stat -c %s "$root/usr/local/bin/ludgate") / 1024 / 1024)) MiB"
((size <= limit)) || fail "the limit is $((limit / 1024 / 1024)) MiB"
tests/real/image/serve.sh "$root"
tests/real/image/check.sh "$root/usr/local/bin/ludgate"
echo 'the image is built and serves'
