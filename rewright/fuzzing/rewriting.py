"""One rewrite of a graph at one place, held against everything that must stay as it was; and graphs near to a given one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from costs.difference import Prices, changed, free_after
from costs.kernels import computed_from_constants
from costs.roofline import Cost, Roofline
from graphs.graph import Graph, Value
from graphs.structure import structural_hash
from operators.operator import OPERATORS, TensorType
from operators.sources import Constant
from rewright.fuzzing.comparing import Different, Reference, must_agree
from rewrites.match import Match
from search.sharing import Change, apply_shared
from verifier.mutants import mutants
from verifier.values import ORDINARY, draw_values


def rewrite(match: Match, graph: Graph, before: Reference, expected: Sequence[Any], roofline: Roofline) -> Change:
    """Apply the match in place, and merge what is computed twice: the outputs stay, and the cost by difference is the cost.

    graph: has no dead nodes   before, expected: the graph before any rewrite, and its outputs
    Raises: RewriteError where the replacement cannot stand; Different naming the rule.
    """
    name = match.rule.__name__
    cost, free = roofline.cost(graph, memory=False), computed_from_constants(graph)
    old = graph.copy()
    applied = apply_shared(match, graph)
    graph.validate()
    after = free_after(graph, free, applied.added, applied.rewired)
    if after is not None:
        prices = Prices(roofline)
        affected = prices.affected(graph, applied.added, applied.rewired)
        new = prices.total(graph, (*applied.added, *affected), after)
        stated = changed(cost, prices.total(old, (*applied.removed, *affected), free), new)
        must_cost(f"{name}, cost by difference", stated, roofline.cost(graph, memory=False), memory=False)
    rewritten = Reference(graph, before.inputs, before.seed)
    must_agree(name, before, expected, rewritten.values(), rewritten)
    return applied


def take_back(match: Match, graph: Graph, applied: Change, digest: str) -> None:
    """Undo the rewrite: the graph is as it was, when it had this digest.

    Raises: Different naming the rule.
    """
    applied.undo()
    graph.validate()
    if structural_hash(graph) != digest:
        raise Different(match.rule.__name__, "undo", "taking the rewrite back must give the graph as it was")


def must_cost(stage: str, stated: Cost, own: Cost, memory: bool = True) -> None:
    """Two costs that must be one.

    Raises: Different.
    """
    for figure in ("time", "flops", "bytes", "kernels", *(("memory",) if memory else ())):
        a, b = getattr(stated, figure), getattr(own, figure)
        if abs(a - b) > 1e-6 * max(abs(a), abs(b)) + 1e-15:
            raise Different(stage, "cost", f"{figure} must be {b}, got {a}")


_Near = Callable[[Graph, Sequence[torch.Tensor], Sequence[int], random.Random], tuple[Graph, list[torch.Tensor]] | None]


def near(graph: Graph, inputs: Sequence[torch.Tensor], chance: random.Random) -> tuple[Graph, list[torch.Tensor]] | None:
    """A graph that is this one but for one change, with inputs for it; None where the change drawn cannot be made.

    An operator, attribute, operand or number is another one; a constant that is read twice becomes two of different content; or what was
    constant depends on a new input.
    """
    constants = [node for node in graph if isinstance(graph.operator(node), Constant)]
    changes: list[_Near] = [_mutated, *((_other_content, _varying) if constants else ())]
    return chance.choice(changes)(graph, inputs, constants, chance)


def _mutated(
    graph: Graph, inputs: Sequence[torch.Tensor], constants: Sequence[int], chance: random.Random
) -> tuple[Graph, list[torch.Tensor]] | None:
    found = next(mutants(graph, 1, chance.randrange(10**6)), None)
    return None if found is None else (found.graph, list(inputs))


def _other_content(
    graph: Graph, inputs: Sequence[torch.Tensor], constants: Sequence[int], chance: random.Random
) -> tuple[Graph, list[torch.Tensor]] | None:
    node = chance.choice(constants)
    readers = graph.users(node)
    if len(readers) < 2:
        return None
    other = graph.copy()
    user, output, position = chance.choice(readers)
    kind = other.type(Value(node))
    twin = other.constant("twin", draw_values(ORDINARY, _numbers(kind), kind.dtype, chance.randrange(10**6)))
    _reread(other, user, position, Value(node, output), twin)
    return other, list(inputs)


def _varying(
    graph: Graph, inputs: Sequence[torch.Tensor], constants: Sequence[int], chance: random.Random
) -> tuple[Graph, list[torch.Tensor]] | None:
    node = chance.choice(constants)
    kind, readers = graph.type(Value(node)), graph.users(node)
    if not readers or not kind.dtype.startswith("float"):
        return None
    other = graph.copy()
    number = other.input("number", TensorType((), kind.dtype))
    varying = other.add(OPERATORS["Multiply"](), Value(node), number)
    for user, output, position in readers:
        _reread(other, user, position, Value(node, output), varying)
    return other, [*inputs, torch.tensor(0.75, dtype=getattr(torch, kind.dtype))]


def _reread(graph: Graph, user: int, position: int, old: Value, new: Value) -> None:
    """Let one operand of a node be another value of the same type."""
    graph.network.remove_edge(old.node, user, key=(old.output, position))
    graph.network.add_edge(new.node, user, key=(new.output, position))


def _numbers(kind: TensorType) -> tuple[int, ...]:
    return tuple(int(str(dim)) for dim in kind.shape)


__all__ = ["must_cost", "near", "rewrite", "take_back"]
