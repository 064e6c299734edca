# SPDX-License-Identifier: Apache-2.0
# CUDA's compiler, runtime and NCCL: those of the system, or what ci/install-deps.sh --gpu brought into .cuda.
set(cproute_brought_cuda ${PROJECT_SOURCE_DIR}/.cuda)
find_program(CPROUTE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda ${cproute_brought_cuda} PATH_SUFFIXES bin)
mark_as_advanced(CPROUTE_NVCC)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  if(NOT CPROUTE_NVCC)
    message(FATAL_ERROR "CUDA's compiler nvcc is missing, which the GPU part needs: install the CUDA toolkit and NCCL, or run"
                        " ci/install-deps.sh --gpu, or configure with -DCPROUTE_CUDA=OFF")
  endif()
  set(CMAKE_CUDA_COMPILER ${CPROUTE_NVCC})
endif()

# Machine code for Hopper, and PTX that the driver compiles for all others from Ampere on: a third more time for nvcc, where machine code
# for each would be twice as much and more.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
endif()
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
# The shared runtime, so that a program has one of them, whoever else brings it.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(cproute_nccl_built_with ${cproute_brought_cuda})
include(${PROJECT_SOURCE_DIR}/engine/cuda/cproute-nccl.cmake)
if(NOT TARGET cproute::nccl)
  message(FATAL_ERROR "NCCL (nccl.h, libnccl) is missing, which the GPU part needs: install it beside the CUDA toolkit, or run"
                      " ci/install-deps.sh --gpu, or name them with -DNCCL_INCLUDE_DIR= and -DNCCL_LIBRARY=")
endif()

# Where the loader does not look, programs that run from the build folder still find what they were linked with. CMake leaves these
# folders out by itself, as it counts the toolkit's as implicit; by their real names they are not.
foreach(library ${CUDA_CUDART} ${NCCL_LIBRARY})
  get_filename_component(folder ${library} REALPATH)
  get_filename_component(folder ${folder} DIRECTORY)
  list(APPEND CMAKE_BUILD_RPATH ${folder})
endforeach()
list(REMOVE_DUPLICATES CMAKE_BUILD_RPATH)
# For the package: where its users' builds look, too.
get_filename_component(cproute_cuda_built_with ${CUDAToolkit_BIN_DIR} DIRECTORY)
get_filename_component(nccl_folder ${NCCL_LIBRARY} DIRECTORY)
set(cproute_nccl_built_with ${NCCL_INCLUDE_DIR} ${nccl_folder})
message(STATUS "The GPU part is built with CUDA ${CUDAToolkit_VERSION} and NCCL in ${NCCL_LIBRARY}")
