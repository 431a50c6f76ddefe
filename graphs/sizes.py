"""torch's symbolic sizes (sympy expressions) as rewright's expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operators.expressions import Atom, Dim, Symbol, floor_divide, larger, product, remainder, smaller, substitute, symbol


class UnknownSize(ValueError):
    """A size that depends on data, or is no integer polynomial with floor quotients and remainders."""


def size_of(value: Any) -> Dim:
    """A dim of a fake tensor, or any SymInt.

    Raises: UnknownSize.
    """
    import torch

    if isinstance(value, torch.SymInt):
        return from_sympy(value.node.expr)
    return int(value)


def shape_of(tensor: Any) -> tuple[Dim, ...]:
    """The shape of a fake tensor.

    Raises: UnknownSize.
    """
    return tuple(size_of(dim) for dim in tensor.shape)


def from_sympy(expression: Any) -> Dim:
    """A sympy integer expression, as torch's shape environment writes them.

    Raises: UnknownSize.
    """
    import sympy  # type: ignore[import-untyped]

    if expression.is_Integer:
        return int(expression)
    if isinstance(expression, sympy.Symbol):
        if str(expression).startswith(("u", "zuf")):
            raise UnknownSize(f"the size {expression} depends on the data")
        return symbol(str(expression))
    name = type(expression).__name__
    parts = expression.args
    if isinstance(expression, sympy.Add):
        total: Dim = 0
        for part in parts:
            total = total + from_sympy(part)
        return total
    if isinstance(expression, sympy.Mul):
        return product(from_sympy(part) for part in parts)
    if isinstance(expression, sympy.Pow) and parts[1].is_Integer and parts[1] > 0:
        return product([from_sympy(parts[0])] * int(parts[1]))
    if name in ("FloorDiv", "CleanDiv"):
        return floor_divide(from_sympy(parts[0]), from_sympy(parts[1]))
    if name in ("Mod", "PythonMod"):
        return remainder(from_sympy(parts[0]), from_sympy(parts[1]))
    if isinstance(expression, sympy.Max) or name == "Max":
        result = from_sympy(parts[0])
        for part in parts[1:]:
            result = larger(result, from_sympy(part))
        return result
    if isinstance(expression, sympy.Min) or name == "Min":
        result = from_sympy(parts[0])
        for part in parts[1:]:
            result = smaller(result, from_sympy(part))
        return result
    raise UnknownSize(f"the size {expression} is not covered")


def number(dim: Dim, sizes: Mapping[Symbol, int]) -> int:
    """The dim with every symbol at its size.

    Raises: UnknownSize when a symbol has none.
    """
    values: dict[Atom, Dim] = dict(sizes.items())
    result = substitute(dim, values)
    if not isinstance(result, int):
        raise UnknownSize(f"the size {result} is not known from {', '.join(map(str, sizes)) or 'no sizes'}")
    return result
