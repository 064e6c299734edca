# SPDX-License-Identifier: Apache-2.0
# A CMake toolchain file: AFL++'s compiler, as ci/toolchain.sh found it.
execute_process(COMMAND bash "${CMAKE_CURRENT_LIST_DIR}/../toolchain.sh" AFL_CC_WRAPPER
                OUTPUT_VARIABLE afl_cc OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT afl_cc)
  message(FATAL_ERROR "afl-clang-fast is missing: run ci/install-deps.sh")
endif()
set(CMAKE_C_COMPILER "${afl_cc}")
set(ENV{AFL_QUIET} 1)
