# SPDX-License-Identifier: Apache-2.0
# A CMake toolchain file: the clang that ci/toolchain.sh chose.
execute_process(COMMAND bash "${CMAKE_CURRENT_LIST_DIR}/../toolchain.sh" FUZZ_CC
                OUTPUT_VARIABLE fuzz_cc OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT fuzz_cc)
  message(FATAL_ERROR "clang is missing: run ci/install-deps.sh")
endif()
set(CMAKE_C_COMPILER "${fuzz_cc}")
