# SPDX-License-Identifier: Apache-2.0
"""The C library: where it is, its structures, its functions."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int64, c_uint64, c_void_p

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
ROWS_UNCHECKED = INT64_MIN
DTYPES = {"int32": 0, "int64": 1, "float16": 2, "bfloat16": 3, "float32": 4, "float64": 5}
OTHER_DTYPE = 6
CPU, CUDA, OTHER_DEVICE = 0, 1, 2
LAYOUTS = {"zigzag": 0, "contiguous": 1, "per_sequence_contiguous": 2, "flat_zigzag": 3, "heads_then_tails": 4}
NO_LAYOUT = 5
GUARDS = {"default": 0, "version": 1, "content": 2}
SEND, RECV = 0, 1
DEVICE_ERROR = -905


class Error(Structure):
    _fields_ = [("status", c_int), ("index", c_int64), ("got", c_int64), ("wanted", c_int64)]


class CuSeqlens(Structure):
    _fields_ = [("data", c_void_p), ("count", c_int64), ("stride", c_int64), ("dtype", c_int), ("device", c_int)]


class Geometry(Structure):
    _fields_ = [("cp_size", c_int64), ("cp_rank", c_int64)]


class Request(Structure):
    _fields_ = [("cu_seqlens", CuSeqlens), ("rows", c_int64), ("geometry", Geometry), ("source", c_int), ("target", c_int),
                ("tp_size", c_int64)]


class Allocator(Structure):
    _fields_ = [("allocate", c_void_p), ("release", c_void_p), ("context", c_void_p)]


class RunList(Structure):
    _fields_ = [("runs", c_void_p), ("count", c_int64), ("rows", c_int64), ("identity", c_bool)]


class RouteStruct(Structure):
    _fields_ = [("source", c_int), ("target", c_int), ("geometry", Geometry), ("total_tokens", c_int64), ("boundaries_digest", c_uint64),
                ("send", RunList), ("recv", RunList), ("allocator", Allocator)]


class Tensor(Structure):
    _fields_ = [("handle", c_uint64), ("storage", c_uint64), ("storage_offset", c_int64), ("stride", c_int64), ("device", c_int),
                ("device_index", c_int64), ("generation", c_uint64), ("has_generation", c_bool), ("view", CuSeqlens)]


class Lookup(Structure):
    _fields_ = [("tensor", Tensor), ("rows", c_int64), ("geometry", Geometry), ("source", c_int), ("target", c_int), ("tp_size", c_int64),
                ("guard", c_int), ("use", c_int), ("captured", c_void_p), ("not_packed", c_bool)]


class CacheOptions(Structure):
    _fields_ = [("max_entries", c_int64), ("max_bytes", c_int64), ("hold", c_void_p), ("drop", c_void_p), ("context", c_void_p)]


class CacheStats(Structure):
    _fields_ = [(name, c_uint64) for name in ("hits", "misses", "builds", "bypasses", "checks", "evictions")] + \
               [(name, c_int64) for name in ("entries", "captured", "bytes")]


def _load():
    path = os.environ.get("CPROUTE_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcproute.so")
    try:
        library = ctypes.CDLL(path)
    except OSError as problem:
        raise ImportError(f"{problem}. `pip install .` puts the library beside the package; in a checkout, whose package hides an installed one"
                          " from scripts beside it, CPROUTE_LIBRARY names a built libcproute.so.") from problem
    route = POINTER(RouteStruct)
    signatures = {
        "cpr_version_string": (c_char_p, []),
        "cpr_status_name": (c_char_p, [c_int]),
        "cpr_error_format": (c_int, [POINTER(Error), c_char_p, ctypes.c_size_t]),
        "cpr_route_build": (c_int, [POINTER(Request), c_void_p, POINTER(route), POINTER(Error)]),
        "cpr_route_free": (None, [route]),
        "cpr_route_rows": (c_int, [route, c_int, c_int, c_void_p, c_int64, POINTER(Error)]),
        "cpr_route_splits": (c_int, [route, c_int, c_void_p, c_int64, POINTER(Error)]),
        "cpr_route_release": (None, [route]),
        "cpr_cache_create": (c_int, [POINTER(CacheOptions), c_void_p, POINTER(c_void_p), POINTER(Error)]),
        "cpr_cache_free": (None, [c_void_p]),
        "cpr_cache_get": (c_int, [c_void_p, POINTER(Lookup), POINTER(route), POINTER(c_bool), POINTER(Error)]),
        "cpr_cache_invalidate": (None, [c_void_p, c_uint64]),
        "cpr_cache_tensor_freed": (None, [c_void_p, c_uint64]),
        "cpr_cache_clear": (None, [c_void_p]),
        "cpr_cache_get_stats": (CacheStats, [c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


library = _load()


class RouteError(ValueError):
    """A request that breaks a rule: `kind`, and what is to blame: `index` (-1: no entry), `got`, `want`."""

    def __init__(self, kind, message, index=-1, got=0, want=0):
        super().__init__(message)
        self.kind, self.index, self.got, self.want = kind, index, got, want

    def __reduce__(self):
        return RouteError, (self.kind, str(self), self.index, self.got, self.want)


def check(error):
    """Raises what the library says is wrong."""
    if error.status == 0:
        return
    text = ctypes.create_string_buffer(256)
    library.cpr_error_format(byref(error), text, len(text))
    kind = library.cpr_status_name(error.status).decode()
    if kind == "no_memory":
        raise MemoryError(text.value.decode())
    raise RouteError(kind, text.value.decode(), error.index, error.got, error.wanted)
