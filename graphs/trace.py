"""Tracing plain PyTorch functions into graphs through `__torch_function__`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from graphs.graph import Graph, Value
from operators.expressions import REALS, Dim, Expression, Variable, plain
from operators.operator import OPERATORS, Applied, Operator, TensorType, Unsupported, canonical_axis, mutates, operator_for
from operators.sources import Scalar


class TraceError(TypeError):
    """A function that cannot be traced; the message names the call and what to write instead."""


class Proxy:
    """Stands for a tensor while a function is traced; every torch function and method applied to it becomes a node."""

    __slots__ = ("graph", "value")

    def __init__(self, graph: Graph, value: Value) -> None:
        self.graph = graph
        self.value = value

    @property
    def type(self) -> TensorType:
        return self.graph.type(self.value)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(_variable(dim) for dim in self.type.shape)

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.type.dtype)  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def weak(self) -> bool:
        return self.type.weak

    def size(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> Any:
        result: Any = 1
        for dim in self.shape:
            result = result * dim
        return result

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return apply_torch(function, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        method = getattr(torch.Tensor, name, None)
        if method is None or name.startswith("__"):
            raise AttributeError(f"a traced tensor has no attribute {name}")
        if not callable(method):
            return apply_torch(method.__get__, (self,), {})
        return lambda *args, **kwargs: apply_torch(method, (self, *args), kwargs)

    def __getitem__(self, index: Any) -> Any:
        return index_tensor(self, index)

    def __iter__(self) -> Any:
        size = self.type.shape[0]
        if not isinstance(size, int):
            raise TraceError(f"a tensor of {size} rows cannot be unpacked while tracing")
        return iter([self[i] for i in range(size)])

    def __bool__(self) -> bool:
        raise TraceError("a rule may not branch on the value of a tensor or a real attribute; state a condition instead")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TraceError("writing into a tensor cannot be traced; build a new tensor (torch.where, torch.cat, F.pad)")


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return apply_torch(getattr(torch.Tensor, name), (self, other), {})

    method.__name__ = name
    return method


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return apply_torch(getattr(torch.Tensor, name), (self,), {})

    method.__name__ = name
    return method


_BINARY = """
    add sub mul truediv floordiv mod pow matmul radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul
    and or xor rand ror rxor eq ne lt gt le ge lshift rshift
"""
for _name in _BINARY.split():
    setattr(Proxy, f"__{_name}__", _binary(f"__{_name}__"))
for _name in ("neg", "abs", "invert"):
    setattr(Proxy, f"__{_name}__", _unary(f"__{_name}__"))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


def _variable(dim: Dim) -> Any:
    return Variable(dim.terms) if isinstance(dim, Expression) else dim


def graph_of(arguments: Any) -> Graph:
    """The graph to which the proxies among the arguments belong."""
    for leaf in pytree.tree_leaves(arguments):
        if isinstance(leaf, Proxy):
            return leaf.graph
    raise TraceError("no traced tensor among the arguments")


def apply_torch(function: Any, args: Sequence[Any], kwargs: dict[str, Any], graph: Graph | None = None) -> Any:
    """The node (or nodes) for a torch call on proxies; proxies of its outputs.

    Raises: TraceError for a function that no operator stands for, or a form that it does not cover.
    """
    name = getattr(function, "__name__", str(function))
    special = _SPECIAL.get(name)
    if special is not None:
        return special(*args, **kwargs)
    declared = operator_for(function)
    if declared is None:
        raise TraceError(f"{name}: no operator is declared for this torch function")
    if mutates(function):
        raise TraceError(f"{name}: writing into a tensor cannot be traced; use {name.strip('_')}")
    graph = graph if graph is not None else graph_of((args, kwargs))
    if name.startswith("__r") and name not in ("__rshift__",):
        args = (args[1], args[0])
    try:
        operator, operands = declared.bind(*_plain(args), **_plain(kwargs))
    except Unsupported as error:
        raise TraceError(f"{name}: {error}") from error
    result = add_application(graph, operator, operands)
    named = getattr(torch.return_types, name, None)  # x.max(-1).values
    return named(result) if named is not None and isinstance(result, tuple) and len(result) == named.n_sequence_fields else result


class _Tracing(TorchFunctionMode):
    """Records calls that take no traced tensor (torch.zeros, torch.arange) as well, when they are given symbolic sizes."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_function__(self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        leaves = pytree.tree_leaves((args, kwargs or {}))
        if any(isinstance(leaf, (Proxy, Variable)) for leaf in leaves):
            return apply_torch(function, args, kwargs or {}, self.graph)
        return function(*args, **(kwargs or {}))


def _plain(arguments: Any) -> Any:
    """What `pytree.tree_map(plain, arguments)` gives, several times as fast for plain containers."""
    kind = type(arguments)
    if kind is tuple or kind is list:
        return kind([_plain(part) for part in arguments])
    if kind is dict:
        return {name: _plain(part) for name, part in arguments.items()}
    return pytree.tree_map(plain, arguments) if isinstance(arguments, (tuple, list, dict)) else plain(arguments)


def add_application(graph: Graph, operator: Operator, operands: Sequence[Any]) -> Any:
    """A node for the operator on proxies and Python numbers; one proxy, or a tuple of them for several outputs."""
    values = [as_value(graph, operand) for operand in operands]
    node = graph.add(operator, *values).node
    outputs = tuple(Proxy(graph, Value(node, output)) for output in range(len(graph.types(node))))
    return outputs if operator.multiple else outputs[0]


def as_value(graph: Graph, operand: Any) -> Value | None:
    """An operand as a value of the graph: numbers become `Scalar`s, tensors become constants."""
    if operand is None:
        return None
    if isinstance(operand, Applied):
        inner = graph.add(operand.operator, *(as_value(graph, part) for part in operand.operands))
        return Value(inner.node, operand.output)
    if isinstance(operand, Proxy):
        if operand.graph is not graph:
            raise TraceError("operands belong to different graphs")
        return operand.value
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, torch.Tensor):
        known = next((name for name, tensor in graph.constants.items() if tensor is operand), None)
        return graph.constant(known or fresh_name(graph), operand)
    if isinstance(operand, (bool, int, float, Expression)):
        return graph.add(Scalar(plain(operand)))
    raise TraceError(f"operand of type {type(operand).__name__} cannot be traced")


def fresh_name(graph: Graph) -> str:
    """A name that no constant of the graph has."""
    names = (f"constant_{number}" for number in itertools.count(len(graph.constants)))
    return next(name for name in names if name not in graph.constants)


def index_tensor(x: Any, index: Any) -> Any:
    """`x[index]` as slices, selections, new axes and gathers.

    Raises: TraceError for a form of indexing that is not covered.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(part, (Proxy, torch.Tensor, list)) for part in parts):
        return _index_by_tensors(x, parts)
    consumed = sum(1 for part in parts if part is not None and part is not Ellipsis)
    rank = x.ndim
    if consumed > rank:
        raise TraceError(f"too many indices: got {consumed} for a tensor of {rank} axes")
    if Ellipsis not in parts:
        parts.append(Ellipsis)
    where = next(position for position, part in enumerate(parts) if part is Ellipsis)
    parts[where : where + 1] = [slice(None)] * (rank - consumed)
    result, axis, sizes = x, 0, []
    for part in parts:
        if part is None:
            sizes.append(1)
            continue
        if isinstance(part, slice):
            if part != slice(None):
                step = 1 if part.step is None else part.step
                size = result.shape[axis]
                start = 0 if part.start is None else part.start
                stop = size if part.stop is None else part.stop
                operator = OPERATORS["Slice"].of(canonical_axis(axis, result.ndim), plain(start), plain(stop), plain(step), plain(size))  # type: ignore[attr-defined]
                result = add_application(x.graph, operator, [result])
            sizes.append(result.shape[axis])
            axis += 1
        else:
            place = canonical_axis(axis, result.ndim)
            operator = OPERATORS["Select"].of(place, plain(part), plain(result.shape[place]))  # type: ignore[attr-defined]
            result = add_application(x.graph, operator, [result])
    if None in parts:
        result = add_application(x.graph, OPERATORS["Reshape"](tuple(plain(size) for size in sizes)), [result])  # type: ignore[call-arg]
    return result


def _index_by_tensors(x: Any, parts: list[Any]) -> Any:
    """`x[parts]` where parts are tensors of positions and whole axes (`:` and `...`)."""
    if any(part is Ellipsis for part in parts):
        where = next(position for position, part in enumerate(parts) if part is Ellipsis)
        parts[where : where + 1] = [slice(None)] * (x.ndim - len(parts) + 1)
    if any(part is None or isinstance(part, int) or (isinstance(part, slice) and part != slice(None)) for part in parts):
        raise TraceError("beside a tensor of positions only whole axes (`:`) may be indexed; slice, select or add axes first")
    indices = [None if isinstance(part, slice) else torch.tensor(part) if isinstance(part, list) else part for part in parts]
    try:
        operator, operands = OPERATORS["Index"].bind(x, indices)
    except Unsupported as error:
        raise TraceError(f"indexing: {error}") from error
    return add_application(graph_of((x, parts)), operator, operands)


def _iterate(x: Any) -> Any:
    return iter(x)


_SPECIAL: dict[str, Callable[..., Any]] = {"__getitem__": index_tensor, "__iter__": _iterate}


class RecordingFactories(TorchFunctionMode):
    """Inside, torch.full, torch.eye and the like are nodes of the graph even where their sizes are numbers, as torch.export has them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in ("full", "ones", "zeros", "eye", "arange"):
            return apply_torch(function, args, kwargs or {}, self.graph)
        return function(*args, **(kwargs or {}))


@contextmanager
def _sizes_one_by_one() -> Iterator[None]:
    """Inside, `torch.ones(m, n)` is `torch.ones((m, n))`: PyTorch's parser takes sizes one by one only where the first is an int."""

    def of_one_tuple(factory: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(factory)
        def call(*size: Any, **named: Any) -> Any:
            return factory(size, **named) if any(isinstance(one, Variable) for one in size) else factory(*size, **named)

        return call

    with ExitStack() as stack:
        for name in ("ones", "zeros"):
            stack.enter_context(patch.object(torch, name, of_one_tuple(getattr(torch, name))))
        yield


def trace(function: Callable[..., Any], arguments: Sequence[Any], graph: Graph) -> list[Value]:
    """Run the function on proxies of the graph (and plain attributes); the values it returns.

    Raises: TraceError, ShapeError as the calls inside do.
    """
    before = REALS.set(lambda variable: Proxy(graph, graph.add(Scalar(plain(variable)))))
    try:
        with _sizes_one_by_one(), _Tracing(graph):
            result = function(*arguments)
    finally:
        REALS.reset(before)
    leaves = result if isinstance(result, (tuple, list)) else (result,)
    values = []
    for leaf in leaves:
        value = as_value(graph, leaf)
        if value is None:
            raise TraceError("a traced function may not return None")
        values.append(value)
    return values
