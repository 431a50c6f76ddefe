"""The bounded proof: both sides equal at every element for every assignment of small sizes, the elements being unknown reals."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence

from graphs.graph import Graph
from graphs.graph import Value as Edge
from operators.expressions import Atom, Dim, Expression, Symbol
from operators.formulas import Formula, Truth, formula_symbols
from operators.meaning import interpreted_by
from operators.operator import collecting_obligations
from operators.predicates import substitute_formula
from verifier.proof.algebra import Symbolic
from verifier.proof.compare import Comparison_
from verifier.proof.domains import NotDefined, Watching, watching
from verifier.proof.equalities import single_numbers, solved_equalities
from verifier.proof.facts import attribute_facts, size_facts
from verifier.proof.knowledge import Bound, Knowledge, SplitNeeded, knowing
from verifier.proof.prove import PROVED, UNDECIDED, Proof
from verifier.proof.solver import OutOfTime, clock
from verifier.proof.terms import Value
from verifier.proof.unfold import Unfolded

MOST_ASSIGNMENTS = 400
MOST_ELEMENTS = 256


def prove_bounded(
    left: Graph,
    right: Graph,
    facts: Iterable[Truth] = (),
    bounds: Sequence[Bound] = (),
    owed: Iterable[Truth] = (),
    greatest: int = 3,
    timeout: float = 20.0,
    where_defined: bool = False,
) -> Proof:
    """Whether two graphs are equal for all sizes and integer attributes from 0 up to the scope's number that satisfy the facts.

    The number is the greatest up to `greatest` for which there are few enough assignments; every one of them is proved. With
    `where_defined` the right graph may have a value where the left one has none.
    """
    begin, started = time.monotonic(), clock()
    given = [*facts, *size_facts(left), *attribute_facts(left)]
    names = sorted(_symbols(left, right, given), key=str)
    limit = max((n for n in range(1, greatest + 1) if (n + 1) ** len(names) <= 20_000), default=0)
    while limit:
        chosen = list(itertools.islice(_assignments(names, limit, given), MOST_ASSIGNMENTS + 1))
        if len(chosen) <= MOST_ASSIGNMENTS:
            break
        limit -= 1
    if not limit or not chosen:
        return Proof(UNDECIDED, time.monotonic() - begin, reason="there are too many small sizes, or none")
    conditions = list(owed)
    for sizes in chosen:
        reason = _differs(left, right, sizes, bounds, conditions, timeout - (clock() - started), where_defined)
        if reason:
            return Proof(UNDECIDED, time.monotonic() - begin, reason=reason)
    scope = (f"sizes and integer attributes from 0 to {limit}, {len(chosen)} assignments",)
    return Proof(PROVED, time.monotonic() - begin, scope)


def _symbols(left: Graph, right: Graph, facts: Iterable[Truth]) -> set[Symbol]:
    found = {s for fact in facts for s in formula_symbols(fact)}
    for graph in (left, right):
        for node in graph:
            dims = [dim for type in graph.types(node) for dim in type.shape]
            dims += [d for v in graph.operator(node).attributes.values() for d in (v if isinstance(v, tuple) else (v,))]
            found |= {s for dim in dims if isinstance(dim, Expression) for s in dim.symbols}
    return found


def _assignments(names: Sequence[Symbol], limit: int, facts: Sequence[Truth]) -> Iterator[dict[Atom, Dim]]:
    for numbers in itertools.product(range(limit + 1), repeat=len(names)):
        values: dict[Atom, Dim] = dict(zip(names, numbers, strict=True))
        try:
            if all(substitute_formula(fact, values) is True for fact in facts):
                yield values
        except ZeroDivisionError:
            continue


def _differs(
    left: Graph,
    right: Graph,
    sizes: dict[Atom, Dim],
    bounds: Sequence[Bound],
    owed: Sequence[Truth],
    seconds: float,
    where_defined: bool,
) -> str:
    where = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    if not all(substitute_formula(condition, sizes) is True for condition in owed if isinstance(condition, Formula)):
        return f"the right side is not well-formed at {where}"
    known, bounds = solved_equalities(bounds, single_numbers(left, right))

    def sides() -> tuple[Unfolded, Unfolded]:
        return Unfolded(left, sizes, defined=True, known=known), Unfolded(right, sizes, defined=False, known=known)

    try:
        with knowing(Knowledge(bounds=bounds, seconds=seconds)), collecting_obligations():
            (ours, theirs), algebras = sides(), watching(UNROLLED, where_defined)
            for a, b in zip(left.outputs, right.outputs, strict=True):
                shape = ours.type(a).shape
                if shape != theirs.type(b).shape:
                    return f"the shapes differ at {where}"
                points = list(itertools.product(*(range(int(str(dim))) for dim in shape)))
                if len(points) > MOST_ELEMENTS:
                    return f"there are more than {MOST_ELEMENTS} elements at {where}"
                for at in points:
                    if not Comparison_().equal(*_element(a, b, at, (ours, theirs), algebras)):
                        return f"element {list(at)} is not known to be equal at {where}"
                if any(isinstance(algebra, Watching) and algebra.asked for algebra in algebras):
                    for at in points:  # elements are computed once, and each must say for itself what it asks
                        own = watching(UNROLLED, where_defined)
                        values = _element(a, b, at, sides(), own)
                        for algebra in own:
                            if isinstance(algebra, Watching):
                                algebra.check((), *values)
    except (OutOfTime, NotImplementedError, NotDefined, SplitNeeded) as error:
        return f"{error} at {where}"
    return ""


UNROLLED = 1 << 30


def _element(
    a: Edge, b: Edge, at: tuple[int, ...], sides: tuple[Unfolded, Unfolded], algebras: tuple[Symbolic, Symbolic]
) -> tuple[Value, Value]:
    values = []
    for side, edge, algebra in zip(sides, (a, b), algebras, strict=True):
        with interpreted_by(algebra):
            values.append(side.tensor(edge)[at])
    return values[0], values[1]


__all__ = ["prove_bounded"]
