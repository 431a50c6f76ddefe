"""A pair of equal terms as a rule over all shapes: its text, its open attributes, its conditions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from operators.expressions import Expression
from rewrites.generalise import source_of
from rewrites.generator.terms import Term
from rewrites.generator.vocabulary import OPERATIONS, Source
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
        """Operations of the larger side, and of both."""
        sides = [len(frozenset().union(*(t.parts for t in side))) for side in (self.left, self.right)]
        return max(sides), sum(sides)

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.left))}  =  {', '.join(map(str, self.right))}"


@dataclass(frozen=True)
class Discovered:
    """A rule made from a candidate, with its Python text and the conditions that were added."""

    name: str
    rule: type[Rule]
    text: str
    conditions: tuple[str, ...]

    def allowing(self, change: Change) -> Discovered:
        """The same rule, declaring one more change in floating point."""
        equality = self.rule.equality.allowing(change)
        names = ", ".join(f"Change.{c.name}" for c in Change if c in equality.changes)
        lines = [line for line in self.text.splitlines() if not line.startswith("    equality = ")]
        where = next(i for i, line in enumerate(lines) if line.startswith("    source = ")) + 1
        lines.insert(where, f"    equality = Equality.REAL.allowing({names})")
        text = "\n".join(lines)
        return Discovered(self.name, rule_from_text(self.name, text), text, self.conditions)


def attributes_of(candidate: Candidate) -> dict[str, Any]:
    """The attributes that may be variables, with the value at which they were found."""
    found: dict[str, set[Any]] = {}
    for term in (*candidate.left, *candidate.right):
        for part in term:
            operation = OPERATIONS.get(part.operation)
            if operation is not None:
                for name, value in operation.attributes:
                    if name in operation.open:
                        found.setdefault(name, set()).add(value)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def generalisations(candidate: Candidate) -> Iterator[tuple[dict[str, Any], tuple[tuple[str, Any], ...]]]:
    """Open attributes with the conditions to try, the weakest first: none, one attribute fixed, two fixed, ….

    An attribute found at a value other than 1 is a variable, or the law is one of that value alone.
    """
    attributes = attributes_of(candidate)
    conditional = [(name, value) for name, value in attributes.items() if isinstance(value, int)]
    for count in range(len(conditional) + 1):
        for fixed in itertools.combinations(conditional, count):
            yield attributes, fixed


def names_in_law(term: Term) -> str:
    """The term's operations as words: `ReluOfConcat`."""
    if term.is_input:
        return "Operand"
    word = "".join(part.capitalize() for part in OPERATIONS[term.operation].family.split("_"))
    inner = list(dict.fromkeys(names_in_law(child) for child in term.children if not child.is_input))
    return word + ("Of" + "And".join(inner) if inner else "")


def law_name(candidate: Candidate, taken: Mapping[str, Any]) -> str:
    """A name that says the law, with a number only when another rule has it already."""
    left, right = (" ".join(dict.fromkeys(map(names_in_law, side))).replace(" ", "With") for side in (candidate.left, candidate.right))
    name = f"{left}Is{right}"
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
        values = {name: name if name in attributes else str(value) for name, value in operation.attributes}
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
            joined = _joined(part.children[0], axis)
            if joined is None:
                raise ValueError(f"{candidate}: a split of what is no concatenation")
            found[part.children[0].number, axis] = ", ".join(joined)
    return found


def _joined(term: Term, axis: int) -> tuple[str, str] | None:
    """The sizes along the axis of the two parts of which the term is made, as text."""
    operation = OPERATIONS.get(term.operation)
    if operation is None:
        return None
    if operation.family == "concat" and operation.name.split("_")[1] == str(axis):
        return _size(term.children[0], axis), _size(term.children[1], axis)
    if operation.family in ("relu", "sigmoid", "tanh", "exp", "scale", "add", "mul", "max", "average"):
        return next((found for child in term.children if (found := _joined(child, axis))), None)
    if operation.family == "matmul":
        return _joined(term.children[axis], axis)
    if operation.family == "conv":
        return _joined(term.children[axis], 0)
    if operation.family == "transpose":
        return _joined(term.children[0], 1 - axis)
    return None


def _size(term: Term, axis: int) -> str:
    return f"{term}.shape[{axis}]" if term.is_input else f"({_text(term)}).shape[{axis}]"


def _text(term: Term) -> str:
    if term.is_input:
        return term.operation
    operation = OPERATIONS[term.operation]
    return operation.text.format(*map(_text, term.children), **{name: str(value) for name, value in operation.attributes})


def rule_of(
    candidate: Candidate, sources: Mapping[str, Source], name: str, open_attributes: Mapping[str, Any], fixed: Sequence[tuple[str, Any]]
) -> Discovered:
    """The candidate as a rule with these attributes as variables and these conditions.

    Raises: RuleDefinitionError, ValueError when it cannot be written as one.
    """
    names = _source_names(candidate, sources)
    sizes = split_sizes(candidate)
    parameters = [*candidate.inputs, *open_attributes]
    lines = [f"def pattern({', '.join(parameters)}):", *(f"    {line}" for line in body(candidate.left, open_attributes, sizes))]
    lines += [f"def replacement({', '.join(parameters)}):", *(f"    {line}" for line in body(candidate.right, open_attributes, sizes))]
    space: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile("\n".join(lines), f"<{name}>", "exec"), space)  # our own text, made from the vocabulary
    examples = [torch.zeros(names[i].shape(WORLDS[0])) for i in candidate.inputs] + list(open_attributes.values())
    paired = rule_from_pair(space["pattern"], space["replacement"], examples, name, _SOURCE)
    text = _source_text(name, paired.signature(), names, candidate, open_attributes, sizes, fixed)
    return Discovered(name, rule_from_text(name, text), text, tuple(f"{attribute} is {value}" for attribute, value in fixed))


def rule_from_text(name: str, text: str) -> type[Rule]:
    """The rule of this name from Python text that the generator wrote."""
    space: dict[str, Any] = {"__name__": "rewrites.generator.found"}
    exec(compile(f"{HEADER}\n\n{text}\n", f"<{name}>", "exec"), space)
    return space[name]  # type: ignore[no-any-return]


def _source_names(candidate: Candidate, sources: Mapping[str, Source]) -> dict[str, Source]:
    by_sort = {source.name[0]: source for source in sources.values()}
    return {name: by_sort[name[0]] for name in candidate.inputs}


def _source_text(
    name: str,
    signature: Signature,
    sources: Mapping[str, Source],
    candidate: Candidate,
    attributes: Mapping[str, Any],
    sizes: Mapping[tuple[int, int], str],
    fixed: Sequence[tuple[str, Any]],
) -> str:
    parameters = []
    for variable in signature.variables:
        if isinstance(variable, TensorVariable):
            dims = " ".join(_dim_text(dim) for dim in variable.dims)
            text = f'Float[Tensor, "{dims}"]'
            parameters.append(f"{variable.name}: {f'Weight[{text}]' if sources[variable.name].weight else text}")
        elif isinstance(variable, (IntegerVariable, RealVariable)):
            parameters.append(f"{variable.name}: {'float' if isinstance(variable, RealVariable) else 'int'}")
    lines = [f"class {name}(Rule):", f'    """{candidate}."""', "", f'    source = "{_SOURCE}"']
    if fixed:
        lines += ["    requires = [", *(f'        Requires("{a} is {v}", lambda {a}: {a} == {v}),' for a, v in fixed), "    ]"]
    lines += [
        "",
        "    @staticmethod",
        f"    def pattern({', '.join(parameters)}):",
        *(f"        {line}" for line in body(candidate.left, attributes, sizes)),
    ]
    names = ", ".join(signature.names)
    lines += [
        "",
        "    @staticmethod",
        f"    def replacement({names}):",
        *(f"        {line}" for line in body(candidate.right, attributes, sizes)),
    ]
    return "\n".join(lines)


def _dim_text(dim: Any) -> str:
    return source_of(dim) if isinstance(dim, (int, Expression)) else str(dim)
