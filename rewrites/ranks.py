"""For which ranks a proof at few of them speaks: rules that act on every index of their variadic dims alike.

A value's variadic dims (`*batch`, `...`) come first; an operator is *batchwise* when its output at one index of these dims is the same
function of its operands at that index (an operand of size 1 there, or without these dims, is read at all of them). A graph of batchwise
operators is therefore, at each index, the graph without these dims. When both sides are traced to the same batchwise operators, with the
same wiring and the same remaining dims, as in a case that is proved, then the law holds for these dims as well, whatever their number and
however they broadcast. Nothing is concluded for a rank at which the two sides were not traced and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphs.graph import Graph, Value
from operators.expressions import Atom, Dim, Expression, Symbol, symbol
from operators.formulas import Comparison, Formula, Truth, formula_symbols
from operators.operator import Operator, ShapeError
from operators.sources import Constant, Input, Scalar
from rewrites.cases import Case, cases, proved_ranks, size_facts, trace_side
from rewrites.code import reads_rank
from rewrites.rule import Rule, remembered
from rewrites.signature import Star

_ALONG = frozenset({
    "Amax", "Amin", "MaxAlong", "MinAlong", "ArgMax", "ArgMin", "Sum", "Mean", "Product", "Variance", "StandardDeviation", "EuclideanNorm",
    "All", "AnyOf", "Cumsum", "Softmax", "LogSoftmax", "LogSumExp", "Glu", "Flip", "Select", "Slice", "Split", "Unbind", "IndexSelect",
})  # fmt: skip
"""Operators that work along axes of their first operand; further operands are without variadic dims."""
_LAST = {"Tril": 2, "Triu": 2, "OneHot": 0}
"""Operators that work on so many last axes of their one operand."""


@dataclass(frozen=True)
class _Split:
    """A value's dims: the variadic ones, and the others."""

    lead: tuple[Dim, ...]
    tail: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.tail)


def unproved(rule: type[Rule], case: Case, pattern: Graph, replacement: Graph, facts: Sequence[Truth], owed: Sequence[Truth]) -> str | None:
    """Why no proof of the rule's cases speaks of this case, traced to these graphs; None when one does.

    `facts` and `owed` are what the operators of the two sides require of the sizes.
    """
    stars = rule.signature().stars
    if _is_proved(rule, case, stars):
        return None
    reason = _loose_sizes(facts, owed, _star_symbols(case)) or "there is no proved case to compare with"
    for base in dict.fromkeys([_base(case, stars, as_found=True), _base(case, stars, as_found=False)]):
        if base in _cases(rule):
            reason = _differs(rule, case, base, pattern, replacement) or _loose_sizes(facts, owed, _star_symbols(case)) or ""
            if not reason:
                return None
    return f"{_dims(case)} are not among the ranks that are proved: {reason}"


def every_rank(rule: type[Rule], most: int = 6) -> dict[str, int | None]:
    """For each star, up to how many dims the rule's proof speaks of it: None for every number of them.

    More dims than are proved are traced and compared, up to `most`; a rule that may ask for the rank is answered for no more than that.
    """
    stars = rule.signature().stars
    first = 2 if any(star.broadcastable for star in stars.values()) else max(proved_ranks(rule)) + 1
    for count in range(first, most + 1):
        dims: dict[str, tuple[Dim, ...]] = {name: tuple(symbol(f"{name}_{i}") for i in range(count)) for name in stars}
        if not all(speaks_of(rule, Case(tuple(dims.items()), tuple(choices.items()))) for choices in rule.signature().choices(dims)):
            return dict.fromkeys(stars, count - 1)
    return dict.fromkeys(stars, most if reads_rank(rule) else None)


def speaks_of(rule: type[Rule], case: Case) -> bool:
    """The rule's proof speaks of tensors of so many dims, or neither side admits them."""
    if any(fact is False for fact in size_facts(rule, case)):
        return True
    try:
        (pattern, facts), (replacement, owed) = (trace_side(rule, side, case) for side in (rule.pattern, rule.replacement))
    except ShapeError:
        return True
    return unproved(rule, case, pattern, replacement, facts, owed) is None


def _differs(rule: type[Rule], case: Case, base: Case, pattern: Graph, replacement: Graph) -> str | None:
    """Why the graphs are not those of the base case, index by index; None when they are."""
    exact = tuple(dims for name, dims in case.stars if dims and not rule.signature().stars[name].broadcastable)
    inputs = [operator for graph in (pattern, replacement) for node in graph.inputs if isinstance(operator := graph.operator(node), Input)]
    dtypes = tuple(dict.fromkeys((operator.name, operator.type.dtype) for operator in inputs if not operator.type.weak))
    plain = _base_graphs(rule, base, dtypes)
    if isinstance(plain, str):
        return plain
    for graph, other in zip((pattern, replacement), plain, strict=True):
        reason = _Alignment(graph, other, _star_symbols(case), _star_symbols(base), exact).difference()
        if reason is not None:
            return reason
    return None


@remembered
def _base_graphs(rule: type[Rule], base: Case, dtypes: tuple[tuple[str, str], ...]) -> tuple[Graph, Graph] | str:
    """Both sides in a proved case, on tensors of these dtypes; or why they cannot be traced there."""
    try:
        return trace_side(rule, rule.pattern, base, dict(dtypes))[0], trace_side(rule, rule.replacement, base, dict(dtypes))[0]
    except ShapeError as error:
        return str(error)


def _dims(case: Case) -> str:
    return ", ".join(f"{len(dims)} dims for *{name}" for name, dims in case.stars)


def _is_proved(rule: type[Rule], case: Case, stars: Mapping[str, Star]) -> bool:
    """The case is one of those that the verifier proves, under other names."""
    loose = [dims for name, dims in case.stars if stars[name].broadcastable]
    named = [dims for name, dims in case.stars if not stars[name].broadcastable]
    return len(loose) <= 3 and all(len(dims) <= 1 for dims in loose) and all(len(dims) in proved_ranks(rule) for dims in named)


def _base(case: Case, stars: Mapping[str, Star], as_found: bool) -> Case:
    """A proved case with which this one is compared: one dim in place of several (with `as_found`, none where there are none)."""
    found: list[tuple[str, tuple[Dim, ...]]] = []
    for name, dims in case.stars:
        loose = stars[name].broadcastable
        one = symbol("size") if loose else symbol(f"{name}_0")
        found.append((name, (one,) if dims or (loose and not as_found) else ()))
    return Case(tuple(found), case.choices)


@remembered
def _cases(rule: type[Rule]) -> frozenset[Case]:
    return frozenset(cases(rule))


def _star_symbols(case: Case) -> frozenset[Symbol]:
    return frozenset(s for _, dims in case.stars for dim in dims if isinstance(dim, Expression) for s in dim.symbols)


def _loose_sizes(facts: Sequence[Truth], owed: Sequence[Truth], stars: frozenset[Symbol]) -> str | None:
    """What the operators require of variadic dims beyond that they broadcast; None when that is nothing."""
    equal: dict[Symbol, Symbol] = {}

    def root(one: Symbol) -> Symbol:
        while one in equal:
            one = equal[one]
        return one

    for required, learn in ((facts, True), (owed, False)):
        for statement in required:
            if not isinstance(statement, Formula) or not stars & formula_symbols(statement):
                continue
            pair = _equated(statement, stars)
            if pair is None:
                return f"an operator requires {statement}"
            one, other = map(root, pair)
            if one != other and not learn:
                return f"the replacement requires {statement}"
            if one != other:
                equal[one] = other
    return None


def _equated(statement: Formula, stars: frozenset[Symbol]) -> tuple[Symbol, Symbol] | None:
    """The two variadic dims that the statement says are equal (one twice, where it says that it is not negative)."""
    if not isinstance(statement, Comparison) or not formula_symbols(statement) <= stars:
        return None
    terms: dict[tuple[Atom, ...], int] = dict(statement.expression.terms)
    atoms = [monomial[0] for monomial in terms if len(monomial) == 1]
    if len(atoms) != len(terms) or not all(isinstance(atom, Symbol) for atom in atoms):
        return None
    if statement.relation == ">=" and list(terms.values()) == [1]:
        return atoms[0], atoms[0]  # type: ignore[return-value]
    if statement.relation == "==" and sorted(terms.values()) == [-1, 1]:
        return atoms[0], atoms[1]  # type: ignore[return-value]
    return None


class _Alignment:
    """A graph beside the graph of the same side in a proved case."""

    def __init__(
        self, graph: Graph, base: Graph, stars: frozenset[Symbol], base_stars: frozenset[Symbol], runs: tuple[tuple[Dim, ...], ...]
    ) -> None:
        self.graph, self.base, self.stars, self.base_stars = graph, base, stars, base_stars
        self.runs = runs
        self.pairs: dict[Value, Value] = {}
        self.splits: dict[Value, _Split] = {}

    def difference(self) -> str | None:
        """Why the two graphs are not the same batchwise operators; None when they are."""
        mine, theirs = self.graph.topological_order(), self.base.topological_order()
        if len(mine) != len(theirs):
            return "other operators are computed there"
        for node, other in zip(mine, theirs, strict=True):
            reason = self._enter(node, other)
            if reason is not None:
                return reason
        if [self.pairs[value] for value in self.graph.outputs] != list(self.base.outputs):
            return "other values are returned there"
        return None

    def _enter(self, node: int, other: int) -> str | None:
        kept, alike = self.graph.operator(node), self.base.operator(other)
        operands, others = self.graph.operands(node), self.base.operands(other)
        if type(kept) is not type(alike) or len(operands) != len(others):
            return f"{kept} is computed there"
        if [None if v is None else self.pairs[v] for v in operands] != list(others):
            return f"{kept} is computed of other operands there"
        types, bases = self.graph.types(node), self.base.types(other)
        if [(t.dtype, t.weak) for t in types] != [(t.dtype, t.weak) for t in bases]:
            return f"{kept} has another dtype there"
        for output, (type_, plain) in enumerate(zip(types, bases, strict=True)):
            split = self._split(type_.shape, plain.shape)
            if split is None:
                return f"the variadic dims of {kept} do not come first, or its others differ there"
            self.pairs[Value(node, output)], self.splits[Value(node, output)] = Value(other, output), split
        inside = [None if v is None else self.splits[v] for v in operands]
        if self._is_batchwise(kept, alike, inside, [self.splits[Value(node, output)] for output in range(len(types))]):
            return None
        return f"{kept} is not known to act on every index of the variadic dims alike"

    def _split(self, shape: Sequence[Dim], base: Sequence[Dim]) -> _Split | None:
        """A value's variadic dims and the others, which must be the same in the proved case."""
        marked = 1 if base and self._is_star(base[0], self.base_stars) else 0
        tail = tuple(base[marked:])
        lead = len(shape) - len(tail)
        if lead < 0 or tuple(shape[lead:]) != tail or (lead and not marked) or any(self._mentions(dim) for dim in tail):
            return None
        first = tuple(shape[:lead])
        if not all(self._is_star(dim, self.stars) or (isinstance(dim, int) and dim == 1) for dim in first):
            return None
        if any(first and first != run and set(first) & set(run) for run in self.runs):
            return None
        return _Split(first, tail)

    def _is_star(self, dim: Dim, stars: frozenset[Symbol]) -> bool:
        return isinstance(dim, Expression) and len(dim.symbols) == 1 and any(dim == Expression.of(s) for s in stars & dim.symbols)

    def _mentions(self, value: Any) -> bool:
        """The value speaks of variadic dims."""
        if isinstance(value, tuple):
            return any(map(self._mentions, value))
        return isinstance(value, Expression) and bool((self.stars | self.base_stars) & value.symbols)

    def _is_batchwise(self, kept: Operator, alike: Operator, operands: list[_Split | None], outputs: list[_Split]) -> bool:
        name = type(kept).__name__
        given = [split for split in operands if split is not None]
        if not any(split.lead for split in given) and not any(split.lead for split in outputs):
            return self._same_fields(kept, alike)
        if isinstance(kept, Input):
            return True
        if isinstance(kept, (Scalar, Constant)):
            return False
        if name in ("Reshape", "Expand", "Full"):
            if {n: v for n, v in kept.attributes.items() if n != "size"} != {n: v for n, v in alike.attributes.items() if n != "size"}:
                return False
            if name == "Reshape":
                return given[0].lead == outputs[0].lead
            return all(self._aligned(split, outputs[0]) for split in given)
        if not self._same_fields(kept, alike):
            return False
        first = given[0] if given else None
        if kept.pointwise or name in ("Identity", "Copy", "Contiguous", "Detach", "Dropout"):
            return all(self._aligned(split, outputs[0]) for split in given) and not (name == "Dropout" and kept.attributes["training"])
        if first is None:
            return False
        fields = kept.attributes
        if name in _ALONG:
            axes = fields.get("axes", (fields.get("axis"),))
            return all(isinstance(a, int) and -first.rank <= a < 0 for a in axes) and not any(split.lead for split in given[1:])
        if name in _LAST:
            return first.rank >= _LAST[name]
        if name == "Permute":
            return len(fields["axes"]) <= first.rank
        if name == "Pad":
            return fields["mode"] == "constant" and len(fields["padding"]) <= 2 * first.rank and not any(s.lead for s in given[1:])
        if name in ("Cat", "Stack"):
            whole = outputs[0].rank
            return -whole <= fields["axis"] < 0 and all((s.lead, s.rank) == (first.lead, first.rank) for s in given)
        if name in ("LayerNorm", "RMSNorm"):
            return int(fields["axes"]) <= first.rank and not any(split.lead for split in given[1:])
        if name == "Linear":
            return first.rank >= 1 and not any(split.lead for split in given[1:])
        if name == "Embedding":
            return not given[0].lead
        if name == "MatMul":
            return self._is_batchwise_product(*given)
        if name == "Attention":
            return outputs[0].rank >= 2 + bool(fields["grouped"]) and all(self._aligned(split, outputs[0]) for split in given)
        return False

    def _same_fields(self, kept: Operator, alike: Operator) -> bool:
        if isinstance(kept, Input):
            return True
        if isinstance(kept, Constant) and isinstance(alike, Constant):
            return bool(self.graph.constants[kept.name].equal(self.base.constants[alike.name]))
        same = kept.attributes == alike.attributes and str(kept) == str(alike)
        return same and not self._mentions(tuple(kept.attributes.values()))

    def _aligned(self, operand: _Split, output: _Split) -> bool:
        """The operand's dims stand against those of the output: variadic ones against variadic ones."""
        return operand.rank == output.rank if operand.lead else operand.rank <= output.rank

    def _is_batchwise_product(self, left: _Split, right: _Split) -> bool:
        if left.lead and right.lead:
            return left.rank == right.rank == 2
        if left.lead:
            return 1 <= left.rank <= 2 and right.rank <= 2
        return right.rank == 2 and left.rank <= 2


__all__ = ["every_rank", "speaks_of", "unproved"]
