"""The library of laws, one file per family; a rule is found by being defined in its family's file."""

import importlib
from functools import cache
from types import ModuleType

from rewrites.rule import Rule

FAMILIES: dict[str, tuple[str, ...]] = {
    "convolution": ("convolution", "convolution_affine", "convolution_merging", "convolution_forms"),
    "normalisation": ("normalisation",),
    "linear": ("linear", "linear_forms", "linear_merging"),
    "attention": ("attention", "softmax"),
    "pointwise": ("pointwise", "scalars", "powers", "piecewise", "choices", "integers"),
    "activations": ("activations", "gates"),
    "layout": ("layout", "movement", "channels_last", "concatenation"),
    "reductions": ("reductions", "statistics"),
    "pooling": ("pooling", "subsampling"),
    "indexing": ("indexing",),
    "casts": ("casts",),
    "constants": ("constants",),
    "parallel": ("parallel", "microbatches"),
}
"""The files of each family, in the order of the library."""


def library() -> list[type[Rule]]:
    """Every rule: the families in order, within a file in the order of the text."""
    return list(_families())


def family(rule: type[Rule]) -> str:
    """The family to which a library rule belongs.

    Raises: KeyError for a rule that is not in the library.
    """
    return _families()[rule]


@cache
def _families() -> dict[type[Rule], str]:
    modules = [(name, importlib.import_module(f"{__name__}.{file}")) for name, files in FAMILIES.items() for file in files]
    return {rule: name for name, module in modules for rule in _rules(module)}


def _rules(module: ModuleType) -> list[type[Rule]]:
    found = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Rule))
    return [rule for rule in found if rule.__module__ == module.__name__]


__all__ = ["FAMILIES", "family", "library"]
