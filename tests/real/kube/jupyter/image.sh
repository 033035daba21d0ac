#!/usr/bin/env bash
# Makes an image of a lab as an OCI image layout:
#
#   image.sh VENV LAYOUT
#
# VENV has JupyterHub and JupyterLab. The image has it, its Python with the shared libraries of this machine, and
# busybox. `lab` starts `jupyterhub-singleuser` as a hub's variables say, in the working directory as home. Nothing is
# written beside home and /tmp, so the root of a container may be read-only.
set -euo pipefail
venv=$1 layout=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{app/base/bin,app/base/lib,bin,etc,home,tmp}
chmod -R 755 "$root"
chmod 1777 "$root/tmp"
cp /bin/busybox "$root/bin/"
for applet in $(/bin/busybox --list); do
  [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
done

# Python finds its library by the place of its program.
program=$(readlink -f "$venv/bin/python3")
library=$("$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
cp "$program" "$root/app/base/bin/python3"
# copy FROM TO OPTIONS-OF-TAR…
copy() {
  tar -C "$1" --exclude=__pycache__ --exclude='*.js.map' "${@:3}" -cf - . | tar -C "$2" -xf -
}
mkdir -p "$root/app/base/lib/$(basename "$library")" "$root/app/venv"
copy "$library" "$root/app/base/lib/$(basename "$library")" --exclude=./site-packages --exclude=./dist-packages \
  --exclude=./test --exclude=./idlelib --exclude=./lib2to3 --exclude=./tkinter --exclude=./ensurepip --exclude='./config-*'
copy "$venv" "$root/app/venv" --exclude=./bin --exclude=./include --exclude='./lib64' \
  --exclude='./lib/*/site-packages/pip' --exclude='./lib/*/site-packages/setuptools'
mkdir "$root/app/venv/bin"
ln -s /app/base/bin/python3 "$root/app/venv/bin/python3"
printf 'home = /app/base/bin\ninclude-system-site-packages = false\n' >"$root/app/venv/pyvenv.cfg"

# The shared libraries at their own paths, without those that packages bring along.
{
  echo "$program"
  find "$root/app" -name '*.so*' -type f
} | xargs ldd 2>/dev/null | grep -o '/[^ :]*' | grep -vF "$root" | sort -u | while read -r shared; do
  [[ ! -f $shared ]] || install -D "$shared" "$root$shared"
done
# Threads load this one when they end.
unwind=$(ldconfig -p | sed -n 's/.*libgcc_s\.so\.1 .*x86-64.*=> //p' | head -n 1)
[[ -z $unwind ]] || install -D "$unwind" "$root$unwind"

# Containers cannot write compiled files, and the layer's files have no times to compare. Some packages have files for
# other versions of Python, which fail.
"$venv/bin/python3" -W ignore -m compileall -qq --invalidation-mode unchecked-hash -s "$root" -p / "$root/app" || true
cat >"$root/bin/lab" <<'LAB'
#!/bin/sh
export HOME="$PWD"
exec /app/venv/bin/python3 -m jupyterhub.singleuser "$@"
LAB
chmod 755 "$root/bin/lab"
# Two images: the newer one also has the name that menus begin with. The older one has another digest.
rm -rf "$layout"
python3 "$here/layout.py" "$layout" "$root" '{ "Env": ["PATH=/app/venv/bin:/bin"], "Cmd": ["lab"] }' \
  w_2077_43,recommended w_2077_42
