# SPDX-License-Identifier: Apache-2.0
"""Context-parallel routes for packed batches, by the C library.

    from cproute import build_thd_cp_partition_route
    route = build_thd_cp_partition_route(cu_seqlens, cp_size, cp_rank)
"""
import ctypes
import operator
import threading
import weakref
from collections import OrderedDict
from ctypes import byref
from dataclasses import dataclass
from typing import Any, List, Optional

import numpy as np

from . import _library as c
from ._library import RouteError
from ._tensors import as_boundaries, device_of, in_memory, is_torch, place_of, put, version_of, view_of

__version__ = c.library.cpr_version_string().decode()
__all__ = ["Route", "RouteCache", "RouteError", "ThdCpRoute", "build_route", "build_thd_cp_partition_route"]


@dataclass
class ThdCpRoute:
    """Both directions between zigzag and contiguous. An index of None is 0, 1, 2, ..."""
    zigzag_index: Optional[Any]
    zigzag_split_sizes: List[int]
    contiguous_index: Optional[Any]
    contiguous_split_sizes: List[int]


class Route:
    """
    What one rank needs for one all-to-all-v. Rows are made when they are first asked for, and kept: NumPy arrays are read only, and
    a torch tensor whose version says that somebody wrote to it is made anew. Writes that the version does not see (through .numpy() or
    .data) are seen by whoever asks next: clone rows before writing to them so.
    """

    def __init__(self, pointer, release, place):
        self._pointer, self._place = pointer, place
        self._made = {}
        weakref.finalize(self, release, pointer)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def _rows(self, side, runs):
        if runs.identity:
            return None
        rows, version = self._made.get(side, (None, None))
        if rows is None or version_of(rows) != version:
            rows = self._expanded(side, runs.rows)
            self._made[side] = rows, version_of(rows)
        return rows

    def _expanded(self, side, count):
        error = c.Error()
        rows = np.empty(count, dtype=np.int64)
        c.library.cpr_route_rows(self._pointer, side, c.DTYPES["int64"], rows.ctypes.data, count, byref(error))
        c.check(error)
        return put(rows, self._place)

    def _splits(self, side):
        error = c.Error()
        splits = (ctypes.c_int64 * self.cp_size)()
        c.library.cpr_route_splits(self._pointer, side, splits, self.cp_size, byref(error))
        c.check(error)
        return list(splits)

    @property
    def cp_size(self):
        return self._pointer.contents.geometry.cp_size

    @property
    def cp_rank(self):
        return self._pointer.contents.geometry.cp_rank

    @property
    def source_rows(self):
        return self._pointer.contents.send.rows

    @property
    def target_rows(self):
        return self._pointer.contents.recv.rows

    @property
    def send_rows(self):
        """Local rows in sending order; None is 0, 1, 2, ..."""
        return self._rows(c.SEND, self._pointer.contents.send)

    @property
    def recv_rows(self):
        """For every arriving row the local row that it becomes; None is 0, 1, 2, ..."""
        return self._rows(c.RECV, self._pointer.contents.recv)

    @property
    def input_splits(self):
        return self._splits(c.SEND)

    @property
    def output_splits(self):
        return self._splits(c.RECV)


def _whole(number):
    """A whole number, never a rounded one. What int64 cannot hold is as wrong as its nearest that can."""
    return max(c.INT64_MIN, min(operator.index(number), c.INT64_MAX))


def _geometry(cp_size, cp_rank):
    return c.Geometry(_whole(cp_size), _whole(cp_rank))


def _layout(name):
    return c.LAYOUTS.get(name, c.NO_LAYOUT) if isinstance(name, str) else c.NO_LAYOUT


def _rows(rows):
    return c.ROWS_UNCHECKED if rows is None else max(_whole(rows), c.ROWS_UNCHECKED + 1)


def _guard(name):
    if not isinstance(name, str) or name not in c.GUARDS:
        raise c.RouteError("guard", f"guard must be one of {', '.join(c.GUARDS)}, not {name!r}")
    return c.GUARDS[name]


def build_route(cu_seqlens, cp_size, cp_rank, source="zigzag", target="contiguous", *, rows=None, tp_size=0, device=None):
    """The route of one rank. Raises RouteError, which is a ValueError, with its kind."""
    cu = as_boundaries(cu_seqlens)
    host, place = in_memory(cu), place_of(cu, device)
    error, made = c.Error(), ctypes.POINTER(c.RouteStruct)()
    request = c.Request(view_of(host), _rows(rows), _geometry(cp_size, cp_rank), _layout(source), _layout(target), _whole(tp_size))
    c.library.cpr_route_build(byref(request), None, byref(made), byref(error))
    c.check(error)
    return Route(made, c.library.cpr_route_free, place)


def build_thd_cp_partition_route(cu_seqlens, cp_size, cp_rank, *, device=None):
    """As Megatron-LM's function of that name: the two-view route of one rank, indices as tensors on `device`, or where cu_seqlens is."""
    route = build_route(cu_seqlens, cp_size, cp_rank, device=device)
    return ThdCpRoute(route.send_rows, route.input_splits, route.recv_rows, route.output_splits)


class RouteCache:
    """Routes that are built once and served as long as they are right.

    guard: "content" compares the boundaries on every lookup and is never stale; "version" trusts a tensor's identity and its
    version counter, reads nothing on a hit, and is blind to writes that the counter does not see; "default" is content for
    what lies on the host and version for the rest. Bounds are those of the library: as many routes are kept here as it keeps
    entries, and max_bytes are those of its runs; rows that were asked for come on top.
    """

    def __init__(self, max_entries=64, max_bytes=0):
        error, made = c.Error(), ctypes.c_void_p()
        options = c.CacheOptions(_whole(max_entries), _whole(max_bytes), None, None, None)
        c.library.cpr_cache_create(byref(options), None, byref(made), byref(error))
        c.check(error)
        self._cache = made
        self._handles, self._next_handle = {}, 1
        self._routes = OrderedDict()
        self._lock = threading.RLock()
        weakref.finalize(self, c.library.cpr_cache_free, made)

    def __copy__(self):
        raise TypeError("a RouteCache cannot be copied: make another, and it fills itself")

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        raise TypeError("a RouteCache cannot be pickled: make another where it is wanted, and it fills itself")

    def get(self, cu_seqlens, cp_size, cp_rank, source="zigzag", target="contiguous", *, rows=None, tp_size=0, guard="default"):
        """The route, or None where there is nothing to exchange (one rank)."""
        return self.lookup(cu_seqlens, cp_size, cp_rank, source, target, rows=rows, tp_size=tp_size, guard=guard)[0]

    def lookup(self, cu_seqlens, cp_size, cp_rank, source="zigzag", target="contiguous", *, rows=None, tp_size=0, guard="default"):
        """(route, whether it was there)"""
        cu = as_boundaries(cu_seqlens)
        # What lies elsewhere is copied to the host only if it must be read.
        host = in_memory(cu) if device_of(cu)[0] == c.CPU else None
        if guard == "default":
            # Said here, because the library would take a copy, once there is one, for contents that can be read on every lookup.
            guard = "version" if host is None else "content"
        lookup = c.Lookup(self._tensor(cu, host), _rows(rows), _geometry(cp_size, cp_rank), _layout(source), _layout(target),
                          _whole(tp_size), _guard(guard), 0, None, False)
        if host is None and guard == "content":
            return self._ask_with_copy(lookup, cu)
        route, hit, error = self._ask(lookup, cu)
        if error.status == c.DEVICE_ERROR and host is None:
            return self._ask_with_copy(lookup, cu)
        c.check(error)
        return route, hit

    def _ask_with_copy(self, lookup, cu):
        host = in_memory(cu)
        lookup.tensor.view = view_of(host)
        route, hit, error = self._ask(lookup, cu)
        c.check(error)
        return route, hit

    def _ask(self, lookup, cu):
        error, made, hit = c.Error(), ctypes.POINTER(c.RouteStruct)(), ctypes.c_bool()
        c.library.cpr_cache_get(self._cache, byref(lookup), byref(made), byref(hit), byref(error))
        return (self._known(made, cu) if error.status == 0 and made else None), hit.value, error

    def _known(self, made, cu):
        """One object for a route, so that its rows are made once for each place where they are used."""
        key = (ctypes.addressof(made.contents), is_torch(cu), *device_of(cu))
        with self._lock:
            known = self._routes.get(key)
            if known is not None:
                c.library.cpr_route_release(made)
                self._routes.move_to_end(key)
                return known
            route = self._routes[key] = Route(made, c.library.cpr_route_release, place_of(cu))
            while len(self._routes) > self.stats["entries"]:
                self._routes.popitem(last=False)
            return route

    def _tensor(self, cu, host):
        kind, index = device_of(cu)
        view = view_of(cu if host is None else host, readable=host is not None)
        tensor = c.Tensor(self._handle(cu), 0, 0, view.stride, kind, index, 0, False, view)
        if is_torch(cu):
            storage = cu.untyped_storage() if hasattr(cu, "untyped_storage") else cu.storage()
            tensor.storage = (storage._cdata ^ storage.data_ptr() << 1) % 2**64
            tensor.storage_offset = cu.storage_offset()
            if not cu.is_inference():
                tensor.has_generation, tensor.generation = True, cu._version
        return tensor

    def _handle(self, cu):
        """A number for the object that no other object ever gets."""
        with self._lock:
            known = self._handles.get(id(cu))
            if known is not None and known[0]() is cu:
                return known[1]
            handle = self._next_handle
            self._next_handle += 1
            owner, key = weakref.ref(self), id(cu)

            def gone(_):
                cache = owner()
                if cache is not None:
                    cache._forget(key, handle)

            self._handles[key] = (weakref.ref(cu, gone), handle)
            return handle

    def _forget(self, key, handle):
        with self._lock:
            if key in self._handles and self._handles[key][1] == handle:
                del self._handles[key]
        c.library.cpr_cache_tensor_freed(self._cache, handle)

    def invalidate(self, cu_seqlens):
        """The tensor was written in a way that its version does not show."""
        with self._lock:
            known = self._handles.get(id(cu_seqlens))
        if known is not None:
            c.library.cpr_cache_invalidate(self._cache, known[1])

    def clear(self):
        c.library.cpr_cache_clear(self._cache)
        with self._lock:
            self._routes.clear()

    @property
    def stats(self):
        numbers = c.library.cpr_cache_get_stats(self._cache)
        return {name: getattr(numbers, name) for name, _ in c.CacheStats._fields_}
