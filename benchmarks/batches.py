"""The example inputs of `examples.models` at another batch size."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.utils import _pytree as pytree

from examples.models import MODELS

BATCH_AXES = {"nasrnn": {3: 1, 2: 0}}
"""Where the batch is not the first axis: by model, the axis for tensors of each rank."""


def model_with(name: str, batch: int) -> tuple[torch.nn.Module, Any]:
    """The model in evaluation mode, and its example inputs cut or repeated to this many samples."""
    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    axes = BATCH_AXES.get(name, {})

    def sized(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.ndim:
            return leaf
        axis = axes.get(leaf.ndim, 0)
        return leaf.index_select(axis, torch.arange(batch) % leaf.shape[axis])

    return module.eval(), pytree.tree_map(sized, inputs)


def keep_memory() -> None:
    """Let this process keep the memory that it frees, as other allocators than glibc's do; elsewhere this does nothing.

    Otherwise some models take a third longer in some processes, from page faults of memory given back and taken anew at every operator.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        library.mallopt(_MMAP_MAX, 0)


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of glibc's mallopt."""

__all__ = ["BATCH_AXES", "keep_memory", "model_with"]
