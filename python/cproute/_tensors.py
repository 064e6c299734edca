# SPDX-License-Identifier: Apache-2.0
"""Boundaries as people have them: lists, NumPy arrays, torch tensors. Torch is imported only for those who brought it."""
import numpy as np

from . import _library as c


def is_torch(cu):
    return type(cu).__module__.split(".")[0] == "torch" or hasattr(cu, "untyped_storage")


def as_array(cu):
    """A list as an array of whole numbers; a number with a fraction makes it one of floats."""
    if isinstance(cu, np.ndarray) or is_torch(cu):
        return cu
    if not len(cu):
        return np.zeros(0, dtype=np.int64)
    array = np.asarray(cu)
    return array.astype(np.int64) if array.dtype.kind in "iu" and array.dtype != np.uint64 else array


def need_one_dimension(cu):
    if len(cu.shape) != 1:
        raise c.RouteError("shape", f"cu_seqlens must have one dimension, not the shape {tuple(cu.shape)}")


def dtype_number(cu):
    name = str(cu.dtype).rpartition(".")[2]
    return c.DTYPES.get(name, c.OTHER_DTYPE)


def device_of(cu):
    """(kind, index)"""
    if not is_torch(cu):
        return c.CPU, 0
    kinds = {"cpu": c.CPU, "cuda": c.CUDA}
    return kinds.get(cu.device.type, c.OTHER_DEVICE), cu.device.index or 0


def view_of(cu, readable=True):
    """The entries in memory. The array or tensor must live as long as the view is used."""
    count = int(cu.shape[0])
    if is_torch(cu):
        data, stride = cu.data_ptr(), cu.stride(0)
    else:
        data, stride = cu.ctypes.data, cu.strides[0] // cu.itemsize if cu.strides[0] % cu.itemsize == 0 else None
    if stride is None:
        raise c.RouteError("shape", "the entries of cu_seqlens do not lie a whole number of entries apart")
    return c.CuSeqlens(data if readable else None, count, stride if count else 1, dtype_number(cu), c.CPU)


def on_host(cu):
    return cu.detach().cpu() if is_torch(cu) and cu.device.type != "cpu" else cu


def place_of(cu, device=None):
    """Where rows go that belong to these boundaries: a torch device, or None for a NumPy array."""
    return (device if device is not None else cu.device) if is_torch(cu) else None


def put(rows, place):
    if place is None:
        return rows
    import torch
    return torch.from_numpy(rows).to(place)
