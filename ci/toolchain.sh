#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The one place that knows which compilers and LLVM tools this tree uses.
#
#   source ci/toolchain.sh      sets and exports the variables
#   ci/toolchain.sh             prints them, NAME=value
#   ci/toolchain.sh FUZZ_CC     prints one value
#
# AFL++ brings compiler passes for exactly one LLVM version, and libFuzzer, AFL++ and the coverage tools should
# judge the same code, so everything that is instrumented is built with the clang that afl-clang-fast drives. A
# variable that is set already is left alone; a tool that is missing leaves its variable empty.

llvm_version_of_afl() {
    afl-clang-fast --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p' | head -n 1
}

llvm_version_of_newest_clang() {
    local version
    for version in 14 22 21 20 19 18 17 16 15; do
        if command -v "clang-$version" >/dev/null; then
            echo "$version"
            return
        fi
    done
}

llvm_tool() {
    command -v "$1-$LLVM_VERSION" || command -v "$1" || true
}

LLVM_VERSION=${LLVM_VERSION:-$(llvm_version_of_afl)}
LLVM_VERSION=${LLVM_VERSION:-$(llvm_version_of_newest_clang)}
FUZZ_CC=${FUZZ_CC:-$(llvm_tool clang)}
FUZZ_CXX=${FUZZ_CXX:-$(llvm_tool clang++)}
AFL_CC_WRAPPER=${AFL_CC_WRAPPER:-$(command -v afl-clang-fast || true)}
LLVM_COV=${LLVM_COV:-$(llvm_tool llvm-cov)}
LLVM_PROFDATA=${LLVM_PROFDATA:-$(llvm_tool llvm-profdata)}
LLVM_SYMBOLIZER=${LLVM_SYMBOLIZER:-$(llvm_tool llvm-symbolizer)}
# Formats differ between versions; .clang-format is written for this one.
CLANG_FORMAT=${CLANG_FORMAT:-$(command -v clang-format-14 || true)}
# Its findings differ between versions as well.
CLANG_TIDY=${CLANG_TIDY:-$(command -v clang-tidy-14 || true)}
CPPCHECK=${CPPCHECK:-$(command -v cppcheck || true)}

toolchain_variables="LLVM_VERSION FUZZ_CC FUZZ_CXX AFL_CC_WRAPPER LLVM_COV LLVM_PROFDATA LLVM_SYMBOLIZER
    CLANG_FORMAT CLANG_TIDY CPPCHECK"
# shellcheck disable=SC2086,SC2163
export $toolchain_variables

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    if [ $# -gt 0 ]; then
        echo "${!1}"
    else
        for variable in $toolchain_variables; do
            echo "$variable=${!variable}"
        done
    fi
fi
