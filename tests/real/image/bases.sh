#!/usr/bin/env bash
# Makes the base images of the Dockerfile from Debian packages, for a machine without a registry:
#
#   tests/real/image/bases.sh STORE
#
# STORE is a folder for buildah. The images have the names that the Dockerfile uses. The one for the build has this
# machine's Rust; the one for the program has the files of the Debian packages that are in the distroless base.
set -euo pipefail
store=$1

release=bookworm
rust=rust:1.95-$release
distroless=gcr.io/distroless/cc-debian12:nonroot
# By number, as in the Dockerfile.
user=65532

buildah() { command buildah --root "$store/images" --runroot "$store/run" --storage-driver vfs "$@"; }
has() { buildah images --format '{{.Name}}:{{.Tag}}' | grep -qx "$1"; }

# The mirror in the system's own sources.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Release: $release" 'Component: main' | sed -n 1p)
[[ -n $mirror ]] || { echo "the apt sources of this system contain no mirror of Debian 12 ($release main)" >&2; exit 1; }

# commit TREE NAME: an image with the files of this folder.
commit() {
  local container mounted
  container=$(buildah from scratch)
  mounted=$(buildah mount "$container")
  cp -a "$1/." "$mounted"
  buildah umount "$container" >/dev/null
  case $2 in
    "$distroless") buildah config --user "$user" "$container" ;;
    "docker.io/library/$rust") buildah config --env CARGO_HOME=/usr/local/cargo --env RUSTUP_HOME=/usr/local/rustup \
      --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container" ;;
  esac
  buildah commit --quiet --rm "$container" "$2" >/dev/null
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if has "docker.io/library/$rust" && has "$distroless"; then
  exit 0
fi
tree=$work/build
debootstrap --variant=minbase --include=ca-certificates,gcc,g++,libc6-dev,make,openssl,python3,tzdata,netbase \
  "$release" "$tree" "$mirror" >"$store/debootstrap.log"
# The system's own sources, with updates and security updates.
rm -rf "$tree"/etc/apt/sources.list*
cp -r /etc/apt/sources.list* "$tree/etc/apt/"
cp /etc/resolv.conf "$tree/etc/resolv.conf"

base=$work/base
mkdir -p "$base"
for package in base-files ca-certificates libc6 libgcc-s1 libstdc++6 netbase tzdata; do
  chroot "$tree" dpkg -L "$package"
done | sort -u | while read -r path; do
  # Without shells and other programs. In the folder that a link of Debian's leads to: /lib is /usr/lib.
  if [[ -f $tree$path || -L $tree$path ]] && [[ $path != */bin/* && $path != */sbin/* ]]; then
    echo "$(realpath -m --relative-to "$tree" "$tree$(dirname "$path")")/$(basename "$path")"
  fi
done | sort -u | tar -C "$tree" -cf - --no-recursion -T - | tar -C "$base" -xf -
for folder in lib lib64; do
  [[ ! -L $tree/$folder ]] || ln -sfn "usr/$folder" "$base/$folder"
done
install -D -m 644 "$tree/etc/ssl/certs/ca-certificates.crt" "$base/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$base/etc" "$base/tmp"
chmod 1777 "$base/tmp"
echo "nonroot:x:$user:$user:nonroot:/:/sbin/nologin" >"$base/etc/passwd"
echo "nonroot:x:$user:" >"$base/etc/group"
commit "$base" "$distroless"

toolchain=$(rustc --print sysroot)
mkdir -p "$tree/usr/local/rust"
for part in bin lib libexec; do
  [[ ! -d $toolchain/$part ]] || cp -a "$toolchain/$part" "$tree/usr/local/rust/"
done
commit "$tree" "docker.io/library/$rust"
