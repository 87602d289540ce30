#!/usr/bin/env bash
# Runs the tests of the PostgreSQL extension with another version of PostgreSQL than this system's:
#
#     scripts/postgres_version.sh VERSION [pytest's arguments]     as root on Debian
#
# The version comes from the release of Debian that has it, with that release's Python and compiler, into
# build/postgres-VERSION/root, once. The tests run there, on this checkout and what it has built: its folder
# is seen at the same place, by mounts that end with the tests.
set -euo pipefail

version=${1:-}
shift || true
declare -A releases=([17]=trixie) # each of them was tried
release=${releases[$version]:-}
here=$(cd "$(dirname "$0")/.." && pwd)
root=${TUSKML_POSTGRES_ROOT:-$here/build/postgres-$version/root}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

refuse() {
    echo "$1" >&2
    exit 1
}

[[ -n $release ]] ||
    refuse "VERSION is '$version', expected ${!releases[*]}"
[[ $(id -u) == 0 ]] || refuse "PostgreSQL $version is set up in a folder of its own by root, and this is not root"
command -v debootstrap >/dev/null || refuse "debootstrap was not found (Debian: apt install debootstrap)"

if [[ ! -e $root/complete ]]; then
    echo "Setting up Debian's $release with PostgreSQL $version in $root (minutes)"
    packages=postgresql-$version,postgresql-server-dev-$version,postgresql-plpython3-$version
    packages+=,python3-venv,ca-certificates,gcc,g++,libc6-dev,make,libleveldb1d
    if [[ ! -d $root/usr/lib/postgresql/$version ]]; then
        mkdir -p "$root"
        debootstrap --variant=minbase --include="$packages" "$release" "$root" "$mirror" \
            >"$root/../debootstrap.log" || refuse "debootstrap failed: see $root/../debootstrap.log"
    fi
    mkdir -p "$root$here"
    touch "$root/complete"
fi

inside() { # a command within the root, on this checkout; its mounts end with it
    unshare --mount --fork bash -c '
        set -e
        root=$1 here=$2
        shift 2
        mount --rbind /dev "$root/dev"
        mount --bind /proc "$root/proc"
        mkdir -p "$root$here"
        mount --bind "$here" "$root$here"
        for file in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
            [[ ! -e $file ]] || { touch "$root$file"; mount --bind "$(realpath "$file")" "$root$file"; }
        done
        exec chroot "$root" env -C "$here" PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' inside "$root" "$here" "$@"
}

if [[ ! -e $root/venv/complete ]]; then
    inside python3 -m venv /venv
    # What the package and these tests import; the native libraries serve every Python.
    inside /venv/bin/python3 scripts/postgres_python.py
    touch "$root/venv/complete"
fi
"$here/.venv/bin/python" scripts/link_tree.py >/dev/null
inside env TUSKML_REQUIRE_POSTGRES=1 TUSKML_POSTGRES_BUILD="build/postgres-$version/objects" \
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 /venv/bin/python3 -m pytest -p no:cacheprovider "${@:-tests/postgres}"
