#!/usr/bin/env bash
# Installs R with the packages that `make foreign` takes as an oracle: on Debian and Ubuntu, as root.
# Elsewhere it says so and leaves those tests to skip.
set -euo pipefail

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
