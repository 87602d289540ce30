#!/usr/bin/env bash
# Installs Chromium, with a font, zsh and fish, which the tests of `tuskml report` and of shell
# completion need: on Debian and Ubuntu, as root. Elsewhere it says so and leaves them to skip.
set -euo pipefail

skip() {
    echo "Tests that need $missing will be skipped: $1"
    exit 0
}

missing=
command -v chromium >/dev/null || missing+=" chromium fonts-dejavu-core"
for shell in zsh fish; do
    command -v "$shell" >/dev/null || missing+=" $shell"
done
missing=${missing# }
[[ -n $missing ]] || exit 0
command -v apt-get >/dev/null || skip "this system has no apt-get to install them"
[[ $(id -u) == 0 ]] || skip "as root, $0 installs them"

export DEBIAN_FRONTEND=noninteractive
read -ra packages <<<"$missing"
install() { apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null; }
echo "Installing ${packages[*]} (a minute)"
install || { apt-get update -qq && install; } || skip "apt-get could not install them"
