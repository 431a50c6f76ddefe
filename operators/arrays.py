"""Tensors between torch and numpy, the dtypes included that numpy knows only through `ml_dtypes`."""

from __future__ import annotations

from typing import Any

_AS_BITS = {
    "bfloat16": ("int16", "bfloat16"),
    "float8_e4m3fn": ("uint8", "float8_e4m3fn"),
    "float8_e4m3fnuz": ("uint8", "float8_e4m3fnuz"),
    "float8_e5m2": ("uint8", "float8_e5m2"),
    "float8_e5m2fnuz": ("uint8", "float8_e5m2fnuz"),
    "float8_e8m0fnu": ("uint8", "float8_e8m0fnu"),
}
"""For each dtype that goes through its bits: the dtype of the bits, and its name in `ml_dtypes`."""


def to_numpy(value: Any) -> Any:
    """A torch tensor as a numpy array of the same elements; a number as an array of no axes; anything else as it is."""
    import numpy
    import torch

    if isinstance(value, (bool, int, float)):
        return numpy.asarray(value)
    if not isinstance(value, torch.Tensor):
        return value
    name = str(value.dtype).removeprefix("torch.")
    value = value.detach().cpu()
    if name in _AS_BITS:
        import ml_dtypes

        bits, named = _AS_BITS[name]
        return value.contiguous().view(getattr(torch, bits)).numpy().view(getattr(ml_dtypes, named))
    return value.numpy()


def to_torch(value: Any) -> Any:
    """A numpy array as a torch tensor of the same elements; what torch has no dtype for (texts, int4, lists) as it is."""
    import numpy
    import torch

    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    array = numpy.asarray(value)
    name = array.dtype.name
    if name in _AS_BITS:
        return torch.from_numpy(numpy.array(array).view(_AS_BITS[name][0])).view(getattr(torch, name))
    if array.dtype.kind not in "biufc" or not hasattr(torch, name):
        return value
    return torch.from_numpy(numpy.array(array, order="C").astype(array.dtype.newbyteorder("="), copy=False))
