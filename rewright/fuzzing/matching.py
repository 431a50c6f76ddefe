"""A match held against what its rule says, without the matcher: the pattern's own functions run on the values that it binds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from costs.kernels import computed_from_constants
from graphs.graph import Graph, Value
from graphs.passes import is_pure
from operators.operator import TensorType
from operators.sources import Input
from rewright.fuzzing.comparing import Different, Reference, must_be_alike
from rewrites.cases import speaks_of_sizes
from rewrites.host import Host
from rewrites.match import Absent, Match
from rewrites.signature import IntegerVariable, RealVariable
from verifier.instances import Instance, condition_holds

CLOSE = 2.0**-24
"""How far, relative to the largest number at hand, the pattern's float64 values may be from the graph's: an absent bias is added."""

_ONE_VALUE = "Expected more than 1 value per channel"
"""What torch.nn.functional says of a norm over one number; the operator takes it, as torch's kernel does."""
Values = Mapping[Value, Any]


def values_of(graph: Graph, inputs: Sequence[Any], seed: int) -> Values:
    """Every value of the graph on these inputs."""
    every = graph.copy()
    every.outputs = [Value(node, output) for node in graph.topological_order() for output in range(len(graph.types(node)))]
    return dict(zip(every.outputs, Reference(every, inputs, seed).values(), strict=True))


def check_constants(graph: Graph) -> None:
    """What counts as constant to the matcher, or as known before the model runs to the costs, is computed from no input.

    Raises: Different.
    """
    dependent = set(graph.inputs).union(*(nx.descendants(graph.network, node) for node in graph.inputs))
    wrong = dependent & computed_from_constants(graph)
    if wrong:
        raise Different("cost", "free", f"node {min(wrong)} ({graph.operator(min(wrong))}) depends on an input")
    host = Host(graph)
    for node in sorted(dependent):
        if host.is_constant(Value(node)):
            raise Different("match", "constant", f"node {node} ({graph.operator(node)}) depends on an input")


def check_match(match: Match, graph: Graph, values: Values) -> None:
    """The match is one: dtypes, constants and conditions are the rule's, and its pattern gives the values that it covers.

    values: every value of the graph   Raises: Different, naming the rule.
    """
    _check_types(match, graph)
    instance = _instance(match, graph, values)
    if instance is None:
        return
    name = f"match of {match.rule.__name__}"
    for condition in match.rule.requires:
        if not condition_holds(instance, condition):
            raise Different(
                name, "condition", f'"{condition.sentence}" must hold, got {instance.sizes} {instance.attributes} {instance.tensors}'
            )
    if not all(is_pure(graph.operator(node)) for node in match.nodes):
        return
    try:
        with torch.no_grad():
            result = match.rule.pattern(*instance.arguments())
    except ValueError as error:
        if _ONE_VALUE not in str(error):
            raise
        return
    found = result if isinstance(result, (tuple, list)) else (result,)
    expected = [values[output] for output in match.outputs]
    if len(found) != len(expected):
        raise Different(name, "structure", f"the pattern has {len(found)} outputs, the match {len(expected)}")
    for position, (a, b) in enumerate(zip(expected, found, strict=True)):
        must_be_alike(name, position, a, b)
        _check_close(name, position, a, b, instance)


def _check_types(match: Match, graph: Graph) -> None:
    name = f"match of {match.rule.__name__}"
    dtypes: dict[str, tuple[str, str]] = {}
    for variable in match.rule.signature().tensors:
        bound = match.bindings[variable.name]
        if not isinstance(bound, Value):
            continue
        dtype = graph.type(bound).dtype
        first = dtypes.setdefault(variable.kind, (variable.name, dtype))
        if first[1] != dtype:
            raise Different(name, "dtype", f"{first[0]} and {variable.name} must have one dtype, got {first[1]} and {dtype}")
        if variable.dtypes and dtype not in variable.dtypes:
            raise Different(name, "dtype", f"{variable.name} must have one of {', '.join(variable.dtypes)}, got {dtype}")
        if variable.weight:
            _must_be_constant(name, variable.name, bound, graph)
    for condition in match.rule.requires:
        for spoken in () if speaks_of_sizes(match.rule, condition) else condition.names:
            bound = match.bindings.get(spoken)
            if isinstance(bound, Value):
                _must_be_constant(name, spoken, bound, graph)


def _must_be_constant(name: str, variable: str, bound: Value, graph: Graph) -> None:
    if any(isinstance(graph.operator(node), Input) for node in (bound.node, *nx.ancestors(graph.network, bound.node))):
        raise Different(name, "constant", f"{variable} must be constant, node {bound.node} depends on an input")


def _instance(match: Match, graph: Graph, values: Values) -> Instance | None:
    """The arguments that the match binds, as numbers and tensors; None where a size is symbolic."""
    sizes: dict[str, int] = {}
    for name, dim in match.dims.items():
        if not isinstance(dim, int):
            return None
        sizes[name] = dim
    reals: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for variable in match.rule.signature().variables:
        bound = match.bindings[variable.name]
        if isinstance(variable, IntegerVariable):
            numbers = bound if variable.length else (bound,)
            if not all(isinstance(number, int) for number in numbers):
                return None
            sizes |= {symbol.name: number for symbol, number in zip(variable.symbols, numbers, strict=True)}
        elif isinstance(variable, RealVariable):
            reals[variable.name] = bound.number if isinstance(bound, Absent) else values[bound]
        elif isinstance(bound, Absent):
            if not all(isinstance(dim, int) for dim in bound.type.shape):
                return None
            tensors[variable.name] = _full(bound.type, bound.number)
        elif isinstance(bound, Value):
            tensors[variable.name] = values[bound].detach().contiguous()
    return Instance(match.rule, match.case, sizes, reals, tensors)


def _full(type: TensorType, number: float) -> Tensor:
    return torch.full([int(str(dim)) for dim in type.shape], number, dtype=getattr(torch, type.dtype))


def _check_close(name: str, position: int, expected: Tensor, found: Tensor, instance: Instance) -> None:
    """Equal; in float64 up to what an operation by a neutral number may round. In coarser dtypes rounding may show, and nothing is said."""
    if bool(((expected == found) | ((expected != expected) & (found != found))).all()):
        return
    if expected.is_floating_point():
        known = [expected, *(tensor for tensor in instance.tensors.values() if tensor.is_floating_point())]
        if expected.dtype != torch.float64 or not all(bool(tensor.isfinite().all()) for tensor in known):
            return
        scale = max((float(tensor.abs().max()) for tensor in known if tensor.numel()), default=0.0)
        if bool(((expected - found).abs() <= CLOSE * max(scale, 1.0)).all()):
            return
    raise Different(name, "value", f"output {position} is {expected.tolist()}, the pattern gives {found.tolist()}")


__all__ = ["check_constants", "check_match", "values_of"]
