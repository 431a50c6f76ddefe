"""Running torch's calls by the operators that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import operators  # noqa: F401 (declares them)
from operators.operator import Applied, Operator, operator_for, torch_name

OF_THE_TENSOR_ITSELF = {"__get__", "size", "dim", "__getitem__", "__set__"}


def run(operator: Operator, operands: Sequence[Any], met: list[str]) -> Any:
    """What torch would give back (a tuple or one tensor); operands that are `Applied` are computed first."""
    values = []
    for operand in operands:
        if isinstance(operand, Applied):
            result = run(operand.operator, operand.operands, met)
            operand = result[operand.output] if isinstance(result, (tuple, list)) else result
        values.append(operand)
    met.append(type(operator).__name__)
    result = operator.run(*values)
    return result if operator.multiple or not isinstance(result, tuple) else result[0]


class ByOperators(TorchFunctionMode):
    """Runs every torch function by operators; `met` names them in order."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        declared = operator_for(function)
        if declared is None or torch_name(function) in OF_THE_TENSOR_ITSELF:
            return function(*args, **(kwargs or {}))
        if torch_name(function).startswith("__r") and torch_name(function) != "__rshift__":
            args = (args[1], args[0])
        operator, operands = declared.bind(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            return run(operator, operands, self.met)


class ExportedByOperators(torch.fx.Interpreter):
    """Runs an exported program's graph by operators and compares each result with torch's, to the bit."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.met: list[str] = []
        self.undeclared: list[str] = []

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(target, torch._ops.OpOverload) or torch_name(target).startswith(("_assert", "sym_")):
            return super().call_function(target, args, kwargs)
        declared = operator_for(target)
        if declared is None:
            self.undeclared.append(str(target))
            return super().call_function(target, args, kwargs)
        operator, operands = declared.bind(*args, **kwargs)
        found = run(operator, operands, self.met)
        expected = super().call_function(target, args, kwargs)
        first_only = isinstance(expected, tuple) and isinstance(found, torch.Tensor)
        torch.testing.assert_close(found, expected[0] if first_only else expected, rtol=0, atol=0, equal_nan=True)
        return expected
