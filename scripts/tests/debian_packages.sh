#!/usr/bin/env bash
# As root, installs the packages that `make debian` built in a system that nobody else sees and that is gone at the end, and
# tries them there:  debian_packages.sh build/debian
#
# The system is Debian's base alone, by debootstrap (from DEBIAN_MIRROR), or without debootstrap a copy of this one. A
# database's owner, who is no superuser, creates the scorer where the other package and Python's are not installed yet.
# Then a superuser trains, and the owner predicts with a dump of the models.
set -euo pipefail
if [ "${2:-}" != alone ]; then
    exec unshare --mount --pid --fork --kill-child bash "$0" "$(realpath "$1")" alone
fi
packages=$1 scratch=$(mktemp -d)
trap 'umount --lazy "$scratch"; rmdir "$scratch"' EXIT
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch"/{upper,work,root}
if command -v debootstrap >/dev/null; then
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase "$release" "$scratch/root" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
        >"$scratch/log" || { tail -n 5 "$scratch/log" >&2 && exit 1; }
    rm -r "$scratch/root/etc/apt"
    cp -r /etc/apt "$scratch/root/etc"
    echo "in Debian's base, $release:"
else
    mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
    echo "in a copy of this system:"
fi
printf '#!/bin/sh\nexit 101\n' >"$scratch/root/usr/sbin/policy-rc.d" # no server starts by itself
chmod +x "$scratch/root/usr/sbin/policy-rc.d"
mount --rbind /dev "$scratch/root/dev"
mount -t proc proc "$scratch/root/proc"
mount -t tmpfs tmpfs "$scratch/root/tmp"
mkdir "$scratch/root/packages"
cp "$packages"/*_*.deb "$scratch/root/packages"

chroot "$scratch/root" bash -euo pipefail -s <<'INSIDE'
export DEBIAN_FRONTEND=noninteractive PGHOST=/tmp PGPORT=54399 PGUSER=postgres
install="apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends"
(scorer=$(ls /packages/postgresql-*-tuskml_*.deb)
trainer=$(ls /packages/python3-tuskml_*.deb)
version=$(basename "$scorer" | sed 's/postgresql-\([0-9]*\)-.*/\1/')
programs=/usr/lib/postgresql/$version/bin
ask() { "$programs/psql" -XAtq -v ON_ERROR_STOP=1 "$@"; }
by_postgres() { su postgres -c "$*"; }

apt-get -qq update
$install "$scorer" >/dev/null
by_postgres "$programs/initdb -D /tmp/data -A trust >/dev/null"
by_postgres "$programs/pg_ctl -D /tmp/data -l /tmp/log -w -o \"-k /tmp -p $PGPORT -c listen_addresses=''\" start >/dev/null"
trap 'by_postgres "$programs/pg_ctl -D /tmp/data -m fast stop >/dev/null"' EXIT
ask -d postgres -c "CREATE ROLE ann LOGIN" -c "CREATE DATABASE scoring OWNER ann" -c "CREATE DATABASE training"
PGUSER=ann ask -d scoring -c "CREATE EXTENSION tuskml" -c "SELECT 'rmse by the owner: ' || rmse(1, 3)"

$install "$trainer" "postgresql-plpython3-$version" >/dev/null
ask -d training -c "CREATE EXTENSION tuskml_train CASCADE" -c "
    CREATE TABLE models AS SELECT g, train_model('linear', 1 + (g + 2) * x + z, ARRAY[x, z]) AS model
    FROM (SELECT i % 2 AS g, i % 7 AS x, i * i % 11 AS z FROM generate_series(1, 60) AS i) AS rows GROUP BY g"
predictions="SELECT g, predict(model, ARRAY[3, 4]) FROM models ORDER BY g"
trained=$(ask -d training -c "$predictions")
"$programs/pg_dump" --extension=tuskml -Fc -f /tmp/models.dump training
PGUSER=ann "$programs/pg_restore" --no-owner --no-privileges -d scoring /tmp/models.dump
restored=$(PGUSER=ann ask -d scoring -c "$predictions")
[ "$trained" = "$restored" ]
echo "predicts from the dump:" $restored
tuskml --version)
INSIDE
