"""Recording the torch calls that an operator's `run` makes, as nodes of a torch.fx graph."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from graphs.sizes import number
from operators.expressions import Dim, Expression, Quotient, Symbol, Variable, plain
from operators.expressions import Extreme as ExtremeAtom


class RecordError(TypeError):
    """An operator whose `run` does what no fx graph can hold; the message names the call."""


class Recorded(torch.Tensor):
    """Stands for a tensor while an operator's `run` is recorded: its fx node, and an example on the meta device."""

    node: torch.fx.Node
    example: torch.Tensor
    sizes: tuple[Dim, ...] | None

    @staticmethod
    def of(node: torch.fx.Node, example: torch.Tensor, sizes: tuple[Dim, ...] | None = None) -> Recorded:
        """A stand-in; `sizes` is the symbolic shape where it is known to be other than the example's."""
        result = torch.Tensor._make_subclass(Recorded, _EMPTY)
        result.node, result.example, result.sizes = node, example, sizes
        return result


_EMPTY = torch.empty(0, device="meta")


class Recording(TorchFunctionMode):
    """Inside `with Recording(...)`, torch functions on `Recorded` tensors become nodes of the fx graph.

    Every call also runs on the examples, so that its outputs' number, shapes and dtypes are known. Symbolic sizes are
    `Variable`s; `sizes` gives the number each symbol has in the examples and `symbols` the fx node that reads it.
    """

    def __init__(self, graph: torch.fx.Graph, device: torch.fx.Node | None, hints: Mapping[Symbol, int]) -> None:
        super().__init__()
        self.graph = graph
        self.device = device
        self.hints = dict(hints)
        self.symbols: dict[Symbol, torch.fx.Node] = {}
        self.computed: dict[Expression, Any] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        prop = _property_name(function)
        if prop is not None and isinstance(args[0], Recorded):
            return self.read(args[0], prop)
        if function in _SHAPES and isinstance(args[0], Recorded):
            return self.measure(args[0], function.__name__, *args[1:], **kwargs)
        with torch._C.DisableTorchFunction():
            example = function(*self.examples(args), **self.examples(kwargs))
        if not any(isinstance(leaf, Recorded) for leaf in pytree.tree_leaves((args, kwargs))):
            if not isinstance(example, torch.Tensor):
                return example
            example, kwargs = example.to("meta"), {**kwargs, "device": self.device}
        if isinstance(example, torch.dtype) or (isinstance(example, bool) and function in _DTYPE_QUESTIONS):
            return example
        node = self.create(function, self.nodes(args), self.nodes(kwargs))
        return self.wrap(node, example)

    def create(self, function: Any, args: Any, kwargs: Any) -> torch.fx.Node:
        """The fx node of a call."""
        name = getattr(function, "__name__", "")
        if function is torch.Tensor.__getitem__:
            return self.graph.call_function(python_operator.getitem, tuple(args))
        if getattr(torch.Tensor, name, None) is function:
            return self.graph.call_method(name, tuple(args), dict(kwargs))
        return self.graph.call_function(function, tuple(args), dict(kwargs))

    def wrap(self, node: torch.fx.Node, example: Any) -> Any:
        """What the recorded call returns."""
        if isinstance(example, torch.Tensor):
            return Recorded.of(node, example)
        if isinstance(example, (tuple, list)):
            parts = [self.wrap(self.graph.call_function(python_operator.getitem, (node, k)), part) for k, part in enumerate(example)]
            return type(example)(parts)
        raise RecordError(f"{node.target}: a result of type {type(example).__name__} cannot be recorded")

    def read(self, x: Recorded, name: str) -> Any:
        """A property of a recorded tensor."""
        if name == "shape":
            return self.measure(x, "size")
        if name == "device":
            return torch.device("meta")
        value = getattr(x.example, name)
        if not isinstance(value, torch.Tensor):
            return value
        return Recorded.of(self.graph.call_function(getattr, (x.node, name)), value)

    def measure(self, x: Recorded, name: str, *arguments: Any, **named: Any) -> Any:
        """The shape of a recorded tensor in one of torch's words; symbolic where it is known."""
        if name in ("dim", "ndimension"):
            return x.example.dim()
        if x.sizes is None and self.hints:
            x.sizes = self.measured(x)
        shape: tuple[Any, ...] = tuple(_variable(dim) for dim in x.sizes) if x.sizes is not None else tuple(x.example.shape)
        if name == "numel":
            total: Any = 1
            for dim in shape:
                total = total * dim
            return total
        axis = arguments[0] if arguments else named.get("dim")
        return (torch.Size(shape) if all(isinstance(dim, int) for dim in shape) else shape) if axis is None else shape[axis]

    def measured(self, x: Recorded) -> tuple[Dim, ...]:
        """The shape of what a call inside `run` gave, in a graph of symbolic sizes: a new symbol per axis, read when it runs."""
        sizes: list[Dim] = []
        for axis, size in enumerate(x.example.shape):
            symbol = Symbol(f"{x.node.name}.{axis}")
            self.symbols[symbol] = self.graph.call_function(torch.ops.aten.sym_size.int, (x.node, axis))
            self.hints[symbol] = size
            sizes.append(Expression.of(symbol))
        return tuple(sizes)

    def examples(self, arguments: Any) -> Any:
        """The arguments of a call on examples."""

        def example(leaf: Any) -> Any:
            if isinstance(leaf, Recorded):
                return leaf.example
            return number(plain(leaf), self.hints) if isinstance(leaf, Expression) else leaf

        return _map(arguments, example)

    def nodes(self, arguments: Any) -> Any:
        """The arguments of a call as fx nodes and plain values."""

        def node(leaf: Any) -> Any:
            if isinstance(leaf, Recorded):
                return leaf.node
            return self.size(plain(leaf)) if isinstance(leaf, Expression) else leaf

        return _map(arguments, node)

    def size(self, value: Dim) -> Any:
        """The fx node that computes a symbolic size; a number as it is."""
        if isinstance(value, int):
            return value
        if value not in self.computed:
            total: Any = None
            for monomial, coefficient in value.terms.items():
                term: Any = coefficient if coefficient != 1 or not monomial else None
                for atom in monomial:
                    factor = self.atom(atom)
                    term = factor if term is None else self.graph.call_function(python_operator.mul, (term, factor))
                total = term if total is None else self.graph.call_function(python_operator.add, (total, term))
            self.computed[value] = total
        return self.computed[value]

    def atom(self, atom: Any) -> Any:
        """The fx node of one unknown in a symbolic size."""
        if isinstance(atom, Symbol):
            if atom not in self.symbols:
                raise RecordError(f"the size {atom} is not the size of any input")
            return self.symbols[atom]
        if isinstance(atom, Quotient):
            return self.graph.call_function(python_operator.floordiv, (self.size(atom.numerator), self.size(atom.denominator)))
        assert isinstance(atom, ExtremeAtom)
        function = torch.sym_max if atom.name == "max" else torch.sym_min
        return self.graph.call_function(function, (self.size(atom.left), self.size(atom.right)))


def _map(arguments: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(arguments, (tuple, list)) and not isinstance(arguments, torch.Size):
        return type(arguments)(_map(part, change) for part in arguments)
    if isinstance(arguments, torch.Size):
        return tuple(arguments)
    if isinstance(arguments, slice):
        return slice(_map(arguments.start, change), _map(arguments.stop, change), _map(arguments.step, change))
    if isinstance(arguments, dict):
        return {key: _map(part, change) for key, part in arguments.items()}
    return change(arguments)


def _variable(dim: Dim) -> Any:
    return Variable(dim.terms) if isinstance(dim, Expression) else dim


def _property_name(function: Any) -> str | None:
    if getattr(function, "__name__", "") != "__get__":
        return None
    owner = getattr(function, "__self__", None)
    return getattr(owner, "__name__", None)


_DTYPE_QUESTIONS = (torch.is_floating_point, torch.is_complex, torch.Tensor.is_floating_point, torch.Tensor.is_complex)

_SHAPES = (torch.Tensor.size, torch.Tensor.dim, torch.Tensor.ndimension, torch.Tensor.numel)
