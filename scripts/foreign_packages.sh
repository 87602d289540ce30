#!/usr/bin/env bash
# Fetches what `make foreign` compares with: R with the packages that it takes as an oracle (on Debian and
# Ubuntu, as root), and suites that no wheel holds, into build/foreign/suites. What cannot be had is said,
# and its tests skip.
set -euo pipefail

suites=build/foreign/suites
if [[ ! -d $suites/glum-3.4.1 ]]; then
    mkdir -p $suites
    echo "Downloading the source of glum (a minute)"
    .venv/bin/pip download -q --no-deps --no-binary glum -d $suites glum==3.4.1 2>/dev/null &&
        tar -xzf $suites/glum-3.4.1.tar.gz -C $suites || echo "Tests against glum will be skipped: no source"
fi

packages=(r-base-core r-recommended r-cran-glmnet r-cran-quantreg r-cran-sandwich)

skip() {
    echo "Tests against R will be skipped: $1"
    exit 0
}

loads() {
    command -v Rscript >/dev/null &&
        Rscript -e 'for (p in c("MASS", "nnet", "glmnet", "quantreg", "sandwich")) library(p, character.only = TRUE)' \
            >/dev/null 2>&1
}

loads && exit 0
command -v apt-get >/dev/null || skip "this system has no apt-get to install it"
[[ $(id -u) == 0 ]] || skip "as root, $0 installs it"

export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null; }
echo "Installing R (two minutes)"
install || { apt-get update -qq && install; } || skip "apt-get could not install it"
