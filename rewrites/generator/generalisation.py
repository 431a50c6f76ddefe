"""A pair of equal terms as a rule over all shapes: its text, its open attributes, its conditions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from operators.expressions import Atom, Dim, Expression, Symbol, substitute
from rewrites.generalise import source_of
from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import OPERATIONS, SORTS
from rewrites.generator.world import WORLDS
from rewrites.pairs import rule_from_pair
from rewrites.rule import Change, Rule
from rewrites.signature import IntegerVariable, RealVariable, Signature, TensorVariable

HEADER = '''"""Rules found by enumeration. Each was verified; see the verdict above it."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule, Weight
'''
_LONGEST_NAME = 70
_SOURCE = "discovered by enumeration: both sides agree on random values in every world (rewrites/generator)"


@dataclass(frozen=True)
class Candidate:
    """Two or more equal pairs of terms (one for each output) with the same inputs: the pattern's, then the replacement's."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for term in (*self.left, *self.right) for name in term.inputs))

    @property
    def size(self) -> tuple[int, int]:
        """Operations of the larger side and of both, shared ones counted as often as they are used.

        Counted so, a special case (inputs that are one) is as large as its law.
        """
        sides = [sum(t.occurrences for t in side) for side in (self.left, self.right)]
        return max(sides), sum(sides)

    @property
    def merges(self) -> bool:
        """Two terms on the left; on the right one operation on inputs that are joined, and the two parts of its result."""
        if len(self.right) != 2 or self.right[0].children != self.right[1].children or self.left[0].operation != self.left[1].operation:
            return False
        (whole,) = self.right[0].children
        parts = [part for part in whole if not part.is_input]
        joins = [part for part in parts if OPERATIONS[part.operation].family == "concat"]
        if self.left[0] is self.left[1]:
            return False
        return whole not in joins and len(parts) == len(joins) + 1 and all(c.is_input for join in joins for c in join.children)

    @property
    def equations(self) -> list[tuple[Term, Term]]:
        """Pattern and replacement of each output."""
        return list(zip(self.left, self.right, strict=True))

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.left))}  =  {', '.join(map(str, self.right))}"


@dataclass(frozen=True)
class Discovered:
    """A rule made from a candidate, with its Python text and the conditions that were added."""

    name: str
    rule: type[Rule]
    text: str
    conditions: tuple[str, ...]
    reversible: bool = False
    """Both sides use every variable, and both compute."""

    def both_ways(self) -> Discovered:
        """The same rule, to be used from right to left as well."""
        lines = self.text.splitlines()
        lines.insert(next(i for i, line in enumerate(lines) if line.startswith("    source = ")) + 1, "    bidirectional = True")
        text = "\n".join(lines)
        return replace(self, rule=rule_from_text(self.name, text), text=text)

    def allowing(self, change: Change) -> Discovered:
        """The same rule, declaring one more change in floating point."""
        equality = self.rule.equality.allowing(change)
        names = ", ".join(f"Change.{c.name}" for c in Change if c in equality.changes)
        lines = [line for line in self.text.splitlines() if not line.startswith("    equality = ")]
        where = next(i for i, line in enumerate(lines) if line.startswith("    source = ")) + 1
        lines.insert(where, f"    equality = Equality.REAL.allowing({names})")
        text = "\n".join(lines)
        return replace(self, rule=rule_from_text(self.name, text), text=text)


@dataclass(frozen=True)
class Openness:
    """How general a candidate is written: which attributes are variables with which value, and what is fixed of them.

    `batched`: matrices may have any batch dimensions in front.   `filled`: no kernel may be empty.
    `sized`: kernels have the sizes with which the candidate was found.
    `agreeing`: sizes are equal where the replacement, or one shape of both sides, needs it as well.
    """

    attributes: tuple[tuple[str, Any], ...] = ()
    fixed: tuple[tuple[str, Any], ...] = ()
    batched: bool = False
    filled: bool = False
    sized: bool = False
    agreeing: bool = False

    @property
    def conditions(self) -> tuple[str, ...]:
        found = [f"{name} is {value}" for name, value in self.fixed]
        return (*found, *["no kernel is empty"] * self.filled, *["kernels are of one size"] * self.sized)

    def closed(self) -> Openness:
        """Every whole attribute fixed at the value with which the candidate was found, no batch dimensions."""
        return Openness(self.attributes, tuple(pair for pair in self.attributes if isinstance(pair[1], int)), sized=True)

    def openings(self, general: Openness) -> list[str]:
        """What can be opened towards the most general, one thing at a time."""
        return ["batch"] * general.batched + ["kernel"] * self.sized + [name for name, _ in self.fixed]

    def opened(self, what: str) -> Openness:
        """The same, one thing more open."""
        if what == "batch":
            return replace(self, batched=True)
        if what == "kernel":
            return replace(self, sized=False)
        return replace(self, fixed=tuple(pair for pair in self.fixed if pair[0] != what))


_BATCHED = ("matmul", "add", "mul", "scale", "relu", "transpose", "concat", "split", "identity", "ones", "zeros", "sigmoid", "tanh", "exp")


def openness_of(candidate: Candidate) -> Openness:
    """The candidate at its most general: every attribute that has one value, or a padding and one more, is a variable."""
    found: dict[str, set[Any]] = {}
    parts = [part for term in (*candidate.left, *candidate.right) for part in term if not part.is_input]
    for operation in (OPERATIONS[part.operation] for part in parts):
        for name, value in operation.attributes:
            if name in operation.open:
                found.setdefault(name, set()).add(value)
    bound = {name for term in candidate.left for part in term if not part.is_input for name in OPERATIONS[part.operation].open}
    common = {name: min(values) for name, values in found.items() if len(values) == 1 or name == "padding"}
    attributes = tuple((name, value) for name, value in common.items() if name in bound)
    operations = [OPERATIONS[part.operation] for part in parts]
    matrices = all((o.family in _BATCHED or o.declared) and 4 not in o.ranks and 1 not in o.ranks for o in operations)
    return Openness(attributes, (), matrices and any(name[0] == "m" for name in candidate.inputs))


def names_in_law(term: Term, depth: int = 9) -> str:
    """The term's operations as words, down to a depth: `ReluOfConcat`."""
    if term.is_input:
        return "Operand"
    operation = OPERATIONS[term.operation]
    word = operation.word or operation.family.capitalize()
    inner = list(dict.fromkeys(names_in_law(child, depth - 1) for child in term.children if not child.is_input))
    return word + ("Of" + "And".join(inner) if inner and depth > 1 else "")


def _side_name(side: Sequence[Term], depth: int) -> str:
    return "With".join(dict.fromkeys(names_in_law(term, depth) for term in side))


def law_name(candidate: Candidate, taken: Mapping[str, Any]) -> str:
    """A name that says the law, with a number only when another rule has it already."""
    depth = 9
    while len(name := "Is".join(_side_name(side, depth) for side in (candidate.left, candidate.right))) > _LONGEST_NAME and depth > 1:
        depth -= 1
    numbered = itertools.chain([name], (f"{name}{i}" for i in itertools.count(2)))
    return next(choice for choice in numbered if choice not in taken)


def body(terms: Sequence[Term], attributes: Mapping[str, Any], sizes: Mapping[tuple[int, int], str]) -> list[str]:
    """Python lines that compute the terms; shared subterms are computed once."""
    uses: dict[int, int] = {}
    for term in terms:
        uses[term.number] = uses.get(term.number, 0) + 1
    parts = {part.number: part for term in terms for part in term}
    for part in parts.values():
        for child in part.children:
            uses[child.number] = uses.get(child.number, 0) + 1
    lines: list[str] = []
    written: dict[int, str] = {}
    for part in parts.values():
        if part.is_input:
            written[part.number] = part.operation
            continue
        operation = OPERATIONS[part.operation]
        values = {name: _value_text(name, value, attributes) for name, value in operation.attributes}
        if "sizes" in values:
            values["sizes"] = sizes[part.children[0].number, dict(operation.attributes)["sizes"]]
        text = operation.text.format(*(written[child.number] for child in part.children), **values)
        if uses[part.number] > 1:
            name = f"t{len(lines)}"
            lines.append(f"{name} = {text}")
            text = name
        written[part.number] = text if text.isidentifier() or text.endswith(")") else f"({text})"
    results = [written[term.number] for term in terms]
    results = [r[1:-1] if r.startswith("(") and r.endswith(")") and _closes_last(r) else r for r in results]
    return [*lines, f"return {', '.join(results)}"]


def _value_text(name: str, value: Any, attributes: Mapping[str, Any]) -> str:
    if name not in attributes:
        return str(value)
    return name if value == attributes[name] else f"{name} + {value - attributes[name]}"


def _closes_last(text: str) -> bool:
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return position == len(text) - 1
    return False


def split_sizes(candidate: Candidate) -> dict[tuple[int, int], str]:
    """How large the parts of each split are: those of the operands whose concatenation the split takes apart."""
    found: dict[tuple[int, int], str] = {}
    for term in (*candidate.left, *candidate.right):
        for part in term:
            operation = OPERATIONS.get(part.operation)
            if operation is None or operation.family != "split":
                continue
            axis = dict(operation.attributes)["sizes"]
            joined = _joined(part.children[0], axis, operation.ranks[0] or 2)
            if joined is None:
                raise ValueError(f"{candidate}: a split of what is no concatenation")
            found[part.children[0].number, axis] = ", ".join(joined)
    return found


def _joined(term: Term, axis: int, rank: int) -> tuple[str, str] | None:
    """The sizes along the axis of the two parts of which the term is made, as text."""
    operation = OPERATIONS.get(term.operation)
    if operation is None:
        return None
    if operation.family == "concat" and operation.name.split("_")[1] == str(axis):
        first, second = term.children
        return f"{_text(first)}.shape[{axis - rank}]", f"{_text(second)}.shape[{axis - rank}]"
    if operation.family in ("relu", "sigmoid", "tanh", "exp", "scale", "add", "mul", "max", "average", "batchnorm", "norm", "addchannel"):
        return next((found for child in term.children if (found := _joined(child, axis, rank))), None)
    if operation.family == "matmul":
        return _joined(term.children[axis], axis, rank)
    if operation.family in ("conv", "biased"):
        return _joined(term.children[axis], 0, rank)
    if operation.family == "transpose":
        return _joined(term.children[0], 1 - axis, rank)
    return None


def _text(term: Term) -> str:
    if term.is_input:
        return term.operation
    operation = OPERATIONS[term.operation]
    values = {name: str(value) for name, value in operation.attributes}
    return f"({operation.text.format(*map(_text, term.children), **values)})"


def rule_of(candidate: Candidate, name: str, openness: Openness) -> Discovered:
    """The candidate as a rule, written as generally as `openness` says.

    Raises: RuleDefinitionError, ValueError when it cannot be written as one.
    """
    sizes = split_sizes(candidate)
    attributes = dict(openness.attributes)
    parameters = ", ".join([*candidate.inputs, *attributes])
    lines = [f"def pattern({parameters}):", *(f"    {line}" for line in body(candidate.left, attributes, sizes))]
    lines += [f"def replacement({parameters}):", *(f"    {line}" for line in body(candidate.right, attributes, sizes))]
    space: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile("\n".join(lines), f"<{name}>", "exec"), space)  # our own text, made from the vocabulary
    pattern, replacement = space["pattern"], space["replacement"]
    tensors = [torch.zeros(SORTS[i[0]].shape(WORLDS[0])) for i in candidate.inputs]
    signature = rule_from_pair(pattern, replacement, tensors + list(attributes.values()), name, _SOURCE).signature()
    if openness.agreeing:
        fixed = dict(openness.fixed)
        free = [attribute for attribute in attributes if attribute not in fixed]
        values = ", ".join(f"{attribute}={fixed.get(attribute, attribute)}" for attribute in attributes)
        code = f"def joint({', '.join([*candidate.inputs, *free])}):\n    return both([{', '.join(candidate.inputs)}], {values})"
        space["both"] = lambda operands, **given: _stacked(pattern(*operands, **given), replacement(*operands, **given))
        exec(compile(code, f"<{name}>", "exec"), space)
        joint = rule_from_pair(space["joint"], space["joint"], tensors + [attributes[a] for a in free], name, _SOURCE).signature()
        signature = _with_dims_of(signature, joint)
    text = _source_text(name, signature, candidate, openness, sizes)
    return Discovered(name, rule_from_text(name, text), text, openness.conditions, _is_reversible(candidate, openness))


def _stacked(left: Any, right: Any) -> Any:
    """Each output of both sides in one tensor, which they fit only when their shapes are equal."""
    pairs = zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]
    return tuple(torch.stack([a, b]) for a, b in pairs)


def _with_dims_of(signature: Signature, joint: Signature) -> Signature:
    """The signature with the other's shapes, where those are symbols as well."""
    dims = {variable.name: variable.dims for variable in joint.tensors}
    if any(
        isinstance(theirs, int) > isinstance(own, int) for v in signature.tensors for own, theirs in zip(v.dims, dims[v.name], strict=True)
    ):
        return signature
    variables = tuple(replace(v, dims=dims[v.name]) if isinstance(v, TensorVariable) else v for v in signature.variables)
    return replace(signature, variables=variables)


def _is_reversible(candidate: Candidate, openness: Openness) -> bool:
    if any(term.is_input for term in candidate.right):
        return False
    used = []
    for side in (candidate.left, candidate.right):
        parts = [part for term in side for part in term]
        names = {part.operation for part in parts if part.is_input}
        used.append(names | {name for part in parts if not part.is_input for name in OPERATIONS[part.operation].open})
    wanted = {*candidate.inputs, *(name for name, _ in openness.attributes)}
    return all(wanted <= names for names in used)


def rule_from_text(name: str, text: str) -> type[Rule]:
    """The rule of this name from Python text that the generator wrote."""
    space: dict[str, Any] = {"__name__": "rewrites.generator.found"}
    exec(compile(f"{HEADER}\n\n{text}\n", f"<{name}>", "exec"), space)
    return space[name]  # type: ignore[no-any-return]


def _source_text(name: str, signature: Signature, candidate: Candidate, openness: Openness, sizes: Mapping[tuple[int, int], str]) -> str:
    parameters = []
    numbers = _kernel_sizes(signature) if openness.sized else {}
    for variable in signature.variables:
        if isinstance(variable, TensorVariable):
            sort = SORTS[variable.name[0]]
            front = ["*batch"] if openness.batched and sort.name == "m" else []
            dims = [_dim_text(substitute(dim, numbers) if isinstance(dim, Expression) else dim) for dim in variable.dims]
            text = f'Float[Tensor, "{" ".join([*front, *dims])}"]'
            parameters.append(f"{variable.name}: {f'Weight[{text}]' if sort.weight else text}")
        elif isinstance(variable, (IntegerVariable, RealVariable)):
            parameters.append(f"{variable.name}: {'float' if isinstance(variable, RealVariable) else 'int'}")
    lines = [f"class {name}(Rule):", f'    """{candidate}."""', "", f'    source = "{_SOURCE}"']
    conditions = [f'        Requires("{a} is {v}", lambda {a}: {a} == {v}),' for a, v in openness.fixed]
    if openness.filled:
        names = ", ".join(name for name in _sizes_of_weights(signature) if Symbol(name) not in numbers)
        conditions.append(f'        Requires("no kernel is empty", lambda {names}: min({names}) >= 1),')
    if conditions:
        lines += ["    requires = [", *conditions, "    ]"]
    attributes = dict(openness.attributes)
    for side, terms, arguments in (("pattern", candidate.left, parameters), ("replacement", candidate.right, signature.names)):
        lines += ["", "    @staticmethod", f"    def {side}({', '.join(arguments)}):"]
        lines += [f"        {line}" for line in body(terms, attributes, sizes)]
    return "\n".join(lines)


def _kernel_sizes(signature: Signature) -> dict[Atom, Dim]:
    """The symbols for the sizes of kernels, with the numbers with which the candidate was found."""
    found: dict[Atom, Dim] = {}
    for variable in signature.tensors:
        sort = SORTS[variable.name[0]]
        if sort.weight and len(variable.dims) == 4:
            for dim, number in zip(variable.dims[2:], sort.shape(WORLDS[0])[2:], strict=True):
                if isinstance(dim, Expression):
                    found |= {atom: number for atom in dim.atoms if isinstance(atom, Symbol)}
    return found


def _sizes_of_weights(signature: Signature) -> list[str]:
    """The names of the sizes in the weights' shapes."""
    names: dict[str, None] = {}
    for variable in signature.variables:
        if isinstance(variable, TensorVariable) and SORTS[variable.name[0]].weight:
            for dim in variable.dims:
                if isinstance(dim, Expression):
                    names |= dict.fromkeys(atom.name for atom in dim.atoms if isinstance(atom, Symbol))
    return list(names)


def _dim_text(dim: Any) -> str:
    return source_of(dim) if isinstance(dim, (int, Expression)) else str(dim)
