# SPDX-License-Identifier: Apache-2.0
# The target cproute::nccl, if NCCL is to be found: on the usual paths, beside the CUDA toolkit, or below NCCL_HOME. Needs
# find_package(CUDAToolkit) before it. Builds of this tree and of its users include it.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ENV NCCL_HOME ${CUDAToolkit_INCLUDE_DIRS} PATHS ${cproute_nccl_built_with}
          PATH_SUFFIXES include)
# Wheels bring the library under its run-time name alone. A place's library goes before others' of a name that is asked for first:
# it is that of the place's header.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS ENV NCCL_HOME ${CUDAToolkit_LIBRARY_DIR} PATHS ${cproute_nccl_built_with}
             PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY AND NOT TARGET cproute::nccl)
  add_library(cproute::nccl UNKNOWN IMPORTED)
  set_target_properties(cproute::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
