#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what `make check`, `make fuzz` and `make fuzz-afl` need on Debian 12 and Ubuntu 24.04.
#
#   ci/install-deps.sh [LANE...]  installs what is missing, and what those lanes of ci/check.py need beyond that; quiet when
#                                 nothing is
#   ci/install-deps.sh --list     prints all packages and why they are needed
#   ci/install-deps.sh --check    exit 0: nothing is missing, 1: something is (printed)
#   ci/install-deps.sh --gpu [--check]
#                                 brings what `make gpu` compiles with, where the machine has no CUDA toolkit or no NCCL:
#                                 nvcc, runtime, CUPTI, NVTX and NCCL from PyPI's wheels into .cuda, 500 MB; any Linux
#
# Needs root, or sudo without a password; without either it prints the command to run, by sudo or where there is
# none by su, and exits 2.
# Without pipefail: a reader such as grep -q that has seen enough is no failure of the writer.
set -eu

usage() {
    sed -n '3,14s/^# \{0,1\}//p' "$0"
}

# AFL++'s passes work with one LLVM version alone: the one that the distribution's package depends on.
llvm_version() {
    apt-cache depends afl++ 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1
}

packages() {
    local v
    v=$(llvm_version)
    v=${v:-14}
    cat <<END
gcc                     the release compiler
g++                     the public header is compiled as C++ too
libc6-dev               C headers
cmake                   build system
ninja-build             runs the builds
make                    the front door
pkg-config              the install test finds the library with it
git                     sources, and the commit in reports
python3                 the scripts behind make check and make fuzz
python3-numpy           the tests of the Python package; without it they are skipped
libcmocka-dev           unit tests
libjansson-dev          reads the text corpus
libbenchmark-dev        make bench
clang-$v                the compiler of all instrumented builds
llvm-$v                 llvm-cov, llvm-profdata, llvm-symbolizer
libclang-rt-$v-dev      sanitizer runtimes
libfuzzer-$v-dev        libFuzzer
afl++                   the second fuzzer
clang-format-14         make format, make lint
cppcheck                make lint
valgrind                make check counts instructions with it; without it that is skipped
mandoc                  make lint reads the man page
shellcheck              make lint reads the shell scripts
END
}

# What one lane of ci/check.py needs that the others do not.
packages_of_lane() {
    local lane
    case "$1" in
    all) for lane in gcc-12 clang-14 clang-16 clang-19 tidy m32 oss-fuzz; do packages_of_lane "$lane"; done ;;
    gcc-12 | clang-14 | clang-16 | clang-19) echo "$1" ;;
    tidy) echo clang-tidy-14 ;;
    m32) echo gcc-multilib ;;
    oss-fuzz) echo binutils ;;
    esac
}

lanes=
is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_candidate() {
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

missing_packages() {
    local package
    for package in $(packages | cut -d ' ' -f 1) $(for lane in $lanes; do packages_of_lane "$lane"; done); do
        is_installed "$package" || echo "$package"
    done
}

run_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_install() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# What CUDA is made of in PyPI's wheels, and which of them are one release.
cuda_wheels() {
    cat <<END
nvidia-cuda-nvcc==13.0.88
nvidia-cuda-crt==13.0.88
nvidia-nvvm==13.0.88
nvidia-cuda-runtime==13.0.96
nvidia-cuda-cccl==13.0.85
nvidia-cuda-cupti==13.0.85
nvidia-nvtx==13.0.85
END
}

# For the toolkit that there is, or the one above.
nccl_wheel() {
    local major
    major=$("$(system_nvcc)" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    echo "nvidia-nccl-cu${major:-13}==2.28.9"
}

system_has() {
    local folder
    for folder in "$@"; do
        [ -e "$folder" ] && return 0
    done
    return 1
}

# Its path, or nothing.
system_nvcc() {
    command -v nvcc || ls "${CUDA_PATH:-/usr/local/cuda}/bin/nvcc" 2>/dev/null || true
}

system_has_nccl() {
    system_has ${NCCL_HOME:+"$NCCL_HOME/include/nccl.h"} "${CUDA_PATH:-/usr/local/cuda}/include/nccl.h" \
        /usr/include/nccl.h /usr/local/include/nccl.h
}

# As a toolkit lies: bin, include, lib, nvvm; libraries under the names that linkers look for.
lay_out_as_toolkit() {
    local folder=$1 part library
    if [ -d "$folder/wheels/nvidia/cu13" ]; then
        mv "$folder"/wheels/nvidia/cu13/* "$folder"
        chmod +x "$folder"/bin/* "$folder"/nvvm/bin/*
    fi
    for part in include lib; do
        mkdir -p "$folder/$part"
        mv "$folder/wheels/nvidia/nccl/$part"/* "$folder/$part"
    done
    for library in "$folder"/lib/*.so.*; do
        ln -sf "$(basename "$library")" "${library%.so.*}.so"
    done
    ln -sfn lib "$folder/lib64"
    rm -rf "$folder/wheels"
}

root_of_tree() {
    (cd "$(dirname "$0")/.." && pwd)
}

missing_for_gpu() {
    [ -e "$(root_of_tree)/.cuda/include/nccl.h" ] && return
    [ "$(system_nvcc)" ] || echo "CUDA's nvcc"
    system_has_nccl || echo NCCL
}

bring_cuda() {
    local root wheels
    [ -z "$(missing_for_gpu)" ] && return
    root=$(root_of_tree)
    wheels=$(nccl_wheel)
    [ "$(system_nvcc)" ] || wheels="$wheels $(cuda_wheels)"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        echo "install-deps: wheels are brought by pip, and python3 -m pip is not there: install python3-pip, or a CUDA toolkit" \
            "and NCCL" >&2
        exit 2
    fi
    # shellcheck disable=SC2086
    echo "install-deps: bringing into .cuda:" $wheels
    rm -rf "$root/.cuda.part"
    # shellcheck disable=SC2086
    if ! PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --target "$root/.cuda.part/wheels" $wheels; then
        rm -rf "$root/.cuda.part"
        echo "install-deps: the wheels are not to be had here; the GPU part needs a CUDA toolkit and NCCL, or is left out" >&2
        exit 1
    fi
    lay_out_as_toolkit "$root/.cuda.part"
    rm -rf "$root/.cuda"
    mv "$root/.cuda.part" "$root/.cuda"
}

if [ "${1:-}" = --gpu ]; then
    if [ "${2:-}" = --check ]; then
        [ -z "$(missing_for_gpu)" ] && exit 0
        # shellcheck disable=SC2046
        echo "missing:" $(missing_for_gpu)
        exit 1
    fi
    bring_cuda
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "install-deps: this script knows Debian and Ubuntu (apt-get) only. The packages by their Debian names:" >&2
    packages >&2
    exit 2
fi

case "${1:-}" in
"") ;;
--list)
    packages
    exit 0
    ;;
--check)
    missing=$(missing_packages)
    [ -z "$missing" ] && exit 0
    # shellcheck disable=SC2086
    echo "missing:" $missing
    exit 1
    ;;
-h | --help)
    usage
    exit 0
    ;;
-*)
    echo "install-deps: unknown argument $1" >&2
    usage >&2
    exit 2
    ;;
*) lanes=$* ;;
esac

missing=$(missing_packages)
[ -z "$missing" ] && exit 0

# How a person without root's rights types a command that needs them.
typed_as_root() {
    if command -v sudo >/dev/null; then
        echo "sudo sh -c '$*'"
    else
        echo "su -c '$*'"
    fi
}

if ! may_install; then
    echo "install-deps: neither root nor sudo without a password. Run this, then try again:" >&2
    # shellcheck disable=SC2086
    echo "    $(typed_as_root "apt-get update && apt-get install -y --no-install-recommends" $missing)" >&2
    if [ -z "$(llvm_version)" ]; then
        echo "The package lists are empty: which LLVM AFL++ needs here (14 on Debian 12) is known after" >&2
        typed_as_root "apt-get update" >&2
    fi
    exit 2
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
    if ! run_as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; then
        tail -n 30 "$log" >&2
        echo "install-deps: failed: $*" >&2
        exit 1
    fi
}

quietly apt-get update
# Which LLVM it is may have been unknown before the update.
missing=$(missing_packages)
installable=""
for package in $missing; do
    if has_candidate "$package"; then
        installable="$installable $package"
    else
        echo "install-deps: $package is not to be had here; what needs it is skipped" >&2
    fi
done
[ -z "$installable" ] && exit 0
echo "install-deps: installing$installable"
# shellcheck disable=SC2086
quietly apt-get install -y --no-install-recommends $installable
