# SPDX-License-Identifier: Apache-2.0
"""Boundaries as people have them: lists, NumPy arrays, torch tensors. Torch is used only by those who brought it."""
import sys

import numpy as np

from . import _library as c


def is_torch(cu):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(cu, torch.Tensor)


def as_boundaries(cu):
    """What can be viewed: an array or a tensor of one dimension whose entries lie in memory one after the other."""
    array = cu if is_torch(cu) or isinstance(cu, np.ndarray) else _array_of(cu)
    if isinstance(array, np.ma.MaskedArray):
        raise c.RouteError("dtype", "cu_seqlens must not be a masked array: boundaries are not left out but repeated")
    if len(array.shape) != 1:
        raise c.RouteError("shape", f"cu_seqlens must have one dimension, not the shape {tuple(array.shape)}")
    if is_torch(array) and str(array.layout) != "torch.strided":
        raise c.RouteError("shape", f"cu_seqlens must be dense, not {array.layout}")
    return array


def _array_of(entries):
    """A list as an array of whole numbers; a number with a fraction makes it one of floats."""
    try:
        array = np.asarray(entries)
    except ValueError as problem:
        raise c.RouteError("shape", f"cu_seqlens is not a list of numbers: {problem}") from problem
    except OverflowError as problem:
        raise c.RouteError("dtype", f"cu_seqlens has an entry beyond int64: {problem}") from problem
    if array.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    return array.astype(np.int64) if array.dtype.kind in "iu" and array.dtype != np.uint64 else array


def dtype_number(cu):
    name = str(cu.dtype).rpartition(".")[2]
    native = is_torch(cu) or cu.dtype.isnative
    return c.DTYPES.get(name, c.OTHER_DTYPE) if native else c.OTHER_DTYPE


def device_of(cu):
    """(kind, index)"""
    if not is_torch(cu):
        return c.CPU, 0
    kinds = {"cpu": c.CPU, "cuda": c.CUDA}
    return kinds.get(cu.device.type, c.OTHER_DEVICE), cu.device.index or 0


def version_of(rows):
    """What changes if rows are written to: arrays cannot be, and of inference tensors nobody can tell."""
    if not is_torch(rows):
        return None
    return object() if rows.is_inference() else rows._version


def view_of(cu, readable=True):
    """The entries in memory. The array or tensor must live as long as the view is used."""
    count = int(cu.shape[0])
    if is_torch(cu):
        data, stride = cu.data_ptr() if readable else None, cu.stride(0)
    else:
        data, stride = cu.ctypes.data, cu.strides[0] // cu.itemsize if cu.strides[0] % cu.itemsize == 0 else None
    if stride is None:
        raise c.RouteError("shape", "the entries of cu_seqlens do not lie a whole number of entries apart")
    return c.CuSeqlens(data if readable else None, count, stride if count else 1, dtype_number(cu), c.CPU)


def in_memory(cu):
    """The same entries where the processor can read them, and written out if the tensor is a negated view."""
    if not is_torch(cu):
        return cu
    try:
        return cu.detach().cpu().resolve_neg()
    except (NotImplementedError, RuntimeError) as problem:
        kind, _ = device_of(cu)
        raise c.RouteError("device", f"cu_seqlens on {cu.device} cannot be read: {problem}", -1, kind, c.CPU) from problem


def place_of(cu, device=None):
    """Where rows go that belong to these boundaries: a torch device, or None for a NumPy array."""
    if device is None:
        return cu.device if is_torch(cu) else None
    try:
        import torch
        return torch.empty(0, device=device).device
    except ImportError as problem:
        raise c.RouteError("device", f"device={device!r} needs torch: {problem}") from problem
    except (RuntimeError, NotImplementedError, AssertionError, TypeError) as problem:
        raise c.RouteError("device", f"device={device!r} cannot be used: {problem}") from problem


def put(rows, place):
    if place is None:
        rows.flags.writeable = False
        return rows
    import torch
    return torch.from_numpy(rows).to(place)
