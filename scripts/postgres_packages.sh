#!/usr/bin/env bash
# Installs PostgreSQL, its server headers and PL/Python, which the tests of the extension need: on
# Debian and Ubuntu, as root. Elsewhere it says so and leaves the tests to skip. No server is started.
set -euo pipefail

complete() { # whether a server is here with all that its extension needs
    local config lib share
    for config in "$(command -v pg_config || true)" /usr/lib/postgresql/*/bin/pg_config; do
        [[ -x $config ]] || continue
        lib=$("$config" --pkglibdir) share=$("$config" --sharedir)
        [[ -x $("$config" --bindir)/initdb && -e $lib/plpython3.so &&
            -e $share/extension/plpython3u.control && -e $("$config" --pgxs) &&
            -e $("$config" --includedir-server)/postgres.h ]] && return
    done
    return 1
}

newest() { # the newest version whose three packages this system offers
    apt-cache pkgnames postgresql-plpython3- | sed 's/.*-//' | grep -E '^[0-9]+$' | sort -rn |
        while read -r version; do
            if apt-cache show "postgresql-$version" "postgresql-server-dev-$version" >/dev/null 2>&1
            then
                echo "$version"
                break
            fi
        done || true
}

skip() {
    echo "PostgreSQL's tests will be skipped: $1"
    exit 0
}

complete && exit 0
needed="they need PostgreSQL with server headers and PL/Python"
command -v apt-get >/dev/null || skip "$needed, and this system has no apt-get to install them"
[[ $(id -u) == 0 ]] || skip "$needed; as root, $0 installs them"

export DEBIAN_FRONTEND=noninteractive
version=$(newest)
if [[ -z $version ]]; then
    apt-get update -qq || skip "apt-get update failed"
    version=$(newest)
fi
[[ -n $version ]] || skip "no repository of this system offers postgresql-plpython3"

echo "Installing PostgreSQL $version with server headers and PL/Python (half a minute)"
install() { apt-get install -qq -y --no-install-recommends "$@" >/dev/null; }

# Debian makes and starts a cluster with each new server, unless its settings say otherwise.
settings=/etc/postgresql-common/createcluster.conf
install postgresql-common || { apt-get update -qq && install postgresql-common; } ||
    skip "apt-get could not install postgresql-common"
kept=$(mktemp)
cp -p "$settings" "$kept"
trap 'cp -p "$kept" "$settings"; rm -f "$kept"' EXIT
echo "create_main_cluster = false" >>"$settings"
install "postgresql-$version" "postgresql-server-dev-$version" "postgresql-plpython3-$version" ||
    skip "apt-get could not install PostgreSQL $version"
