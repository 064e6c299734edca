#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0
# Builds every law's fuzz target into $OUT, as ClusterFuzzLite and OSS-Fuzz ask for it: with CC, CXX, CFLAGS, CXXFLAGS and
# LIB_FUZZING_ENGINE as they are given, below $WORK, from $SRC/cproute. `make oss-fuzz` runs it without a container.
#
#   fuzz_LAW, fuzz_LAW.options, fuzz_LAW.dict, fuzz_LAW_seed_corpus.zip
#
# The canary fails by intent and stays out.

source_tree=$SRC/cproute
given=(-G Ninja -S "$source_tree" -DCPROUTE_WERROR=OFF)

cmake "${given[@]}" -B "$WORK/targets" -DCMAKE_BUILD_TYPE=None -DCPROUTE_FUZZER=given
cmake --build "$WORK/targets" --target fuzz_targets

# The command that makes seeds runs here and now, and links Jansson, which is not instrumented.
env -u CFLAGS -u CXXFLAGS -u LDFLAGS CC="${HOST_CC:-clang}" CXX="${HOST_CXX:-clang++}" cmake "${given[@]}" -B "$WORK/host"
cmake --build "$WORK/host" --target cproute
rm -rf "$WORK/seeds" "$WORK/dictionaries"
"$WORK/host/cproute" seeds --out "$WORK/seeds" --dictionaries "$WORK/dictionaries" "$source_tree/corpus/cases"

for target in "$WORK"/targets/fuzz/fuzz_*; do
    name=$(basename "$target")
    law=${name#fuzz_}
    if [ ! -f "$target" ] || [ ! -x "$target" ] || [ "$law" = canary ]; then
        continue
    fi
    cp "$target" "$OUT/"
    cp "$source_tree/fuzz/fuzz.options" "$OUT/$name.options"
    rm -f "$OUT/${name}_seed_corpus.zip"
    python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" "$WORK/seeds/$law"/*
    # Inputs that are not made of records have no dictionary.
    if [ -f "$WORK/dictionaries/$law.dict" ]; then
        cp "$WORK/dictionaries/$law.dict" "$OUT/$name.dict"
    fi
done
