"""The normal form: sums over bound indices of a coefficient times guards times factors.

A `Value` is a finite sum of `Product`s with rational coefficients. A `Product` is
Σ over its bound indices of Π [guard] · Π factor^power; ranges of bound indices are guards like any other. A `Factor` is what the
arithmetic does not look into: an element read from a tensor, a size as a number, a function of other `Value`s.
Values that stand inside a factor are in canonical form: their bound indices are named by their order, so equal factors have equal keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

from operators.expressions import Atom, Dim, Expression, Symbol, substitute
from operators.formulas import Formula, formula_symbols
from operators.predicates import substitute_formula
from verifier.proof.knowledge import SUBSCRIPTS, Index, current

Substitution: TypeAlias = Mapping[Atom, Dim]

INDEX_NAME = re.compile(r"[a-zA-Z]+[₀-₉]+")


class Factor:
    """An atom of the products' arithmetic; equal keys mean equal factors."""

    idempotent: ClassVar[bool] = False
    """The factor is 0 or 1, so its powers are itself."""
    key: str
    free: frozenset[Symbol]
    height: int = 0

    def replaced(self, values: Substitution) -> Value:
        """The factor with symbols replaced."""
        raise NotImplementedError

    def relabelled(self, names: Substitution) -> Factor:
        """The factor with index variables renamed to fresh ones; its form stays as it is."""
        raise NotImplementedError

    def parts(self) -> tuple[Value, ...]:
        """The values of which the factor is a function."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key


class Data(Atom):
    """An integer computed from tensors' elements, used as an index."""

    def __init__(self, value: Value) -> None:
        self.value = value.canonical()
        self.__dict__["key"] = f"⟨{self.value.key}⟩"

    def __str__(self) -> str:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def substitute(self, values: Mapping[Atom, Dim]) -> Dim:
        from verifier.proof.piecewise import as_index

        if self in values:
            return values[self]
        result: Dim = as_index(self.value.replaced(values))
        return result

    def inner(self) -> tuple[Expression, ...]:
        return tuple(Expression.of(symbol) for symbol in self.value.free)


def heights(dims: Iterable[Dim]) -> int:
    """The height of the values inside data-dependent indices."""
    found = 0
    for dim in dims:
        if isinstance(dim, Expression):
            for atom in dim.atoms:
                if isinstance(atom, Data):
                    found = max(found, atom.value.height + 1)
                elif not isinstance(atom, Symbol):
                    found = max(found, heights(atom.inner()))
    return found


class Read(Factor):
    """One element of a tensor; `kind` is bool, int or float."""

    def __init__(self, tensor: str, index: tuple[Dim, ...], kind: str) -> None:
        self.tensor, self.index, self.kind = tensor, index, kind
        self.key = f"{tensor}[{', '.join(map(str, index))}]"
        self.height = heights(index)

    @cached_property
    def free(self) -> frozenset[Symbol]:  # type: ignore[override]
        return frozenset(s for dim in self.index if isinstance(dim, Expression) for s in dim.symbols)

    @property
    def idempotent(self) -> bool:  # type: ignore[override]
        return self.kind == "bool"

    def replaced(self, values: Substitution) -> Value:
        from verifier.proof.piecewise import read

        return read(self.tensor, tuple(substitute(dim, values) for dim in self.index), self.kind)

    def relabelled(self, names: Substitution) -> Read:
        return Read(self.tensor, tuple(substitute(dim, names) for dim in self.index), self.kind)


class Size(Factor):
    """An integer unknown (a size, an attribute, an index) as a number."""

    def __init__(self, atom: Atom) -> None:
        self.atom = atom
        self.key = atom.key
        self.free = frozenset(Expression.of(atom).symbols)
        self.height = heights([Expression.of(atom)])

    def replaced(self, values: Substitution) -> Value:
        return as_value(self.atom.substitute(values))

    def relabelled(self, names: Substitution) -> Size:
        return Size(only_atom(self.atom.substitute(names)))


def only_atom(dim: Dim) -> Atom:
    """The atom of which the expression consists."""
    (monomial,) = Expression.of(dim).terms
    (atom,) = monomial
    return atom


Rebuild: TypeAlias = Callable[..., "Value"]


class Function(Factor):
    """A named function of values; `rebuild` makes it anew from other arguments, with all that is known of it."""

    def __init__(self, name: str, arguments: tuple[Value, ...], rebuild: Rebuild, idempotent: bool = False) -> None:
        self.name, self.rebuild = name, rebuild
        self.arguments = tuple(argument.canonical() for argument in arguments)
        self.idempotent = idempotent  # type: ignore[misc]
        self.key = f"{name}({', '.join(argument.key for argument in self.arguments)})"
        self.free = frozenset(s for argument in self.arguments for s in argument.free)
        self.height = 1 + max((argument.height for argument in self.arguments), default=0)

    def replaced(self, values: Substitution) -> Value:
        return self.rebuild(*(argument.replaced(values) for argument in self.arguments))

    def relabelled(self, names: Substitution) -> Function:
        return Function(self.name, tuple(argument.relabelled(names) for argument in self.arguments), self.rebuild, self.idempotent)

    def parts(self) -> tuple[Value, ...]:
        return self.arguments


class Product:
    """Σ over `bound` of Π [guard] · Π factor^power."""

    __slots__ = ("__dict__", "_hash", "bound", "factors", "guards")

    def __init__(self, bound: tuple[Index, ...], guards: frozenset[Formula], factors: tuple[tuple[Factor, int], ...]) -> None:
        self.bound, self.guards, self.factors = bound, guards, factors
        self._hash = hash((bound, guards, factors))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Product)
            and self._hash == other._hash
            and self.bound == other.bound
            and self.factors == other.factors
            and self.guards == other.guards
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def mentioned(self) -> frozenset[Symbol]:
        """Every symbol in guards and factors, bound ones included."""
        found = {s for factor, _ in self.factors for s in factor.free}
        for guard in self.guards:
            found |= formula_symbols(guard)
        return frozenset(found)

    @cached_property
    def free(self) -> frozenset[Symbol]:
        return self.mentioned - set(self.bound)

    @cached_property
    def key(self) -> str:
        pieces = [f"Σ{','.join(map(str, self.bound))} "] if self.bound else []
        pieces += [f"[{guard}]" for guard in sorted(map(str, self.guards))]
        pieces += [factor.key + (f"^{power}" if power != 1 else "") for factor, power in self.factors]
        return "·".join(pieces) or "1"

    @cached_property
    def masked(self) -> str:
        """The key with the bound indices made anonymous."""
        return mask(self.key, {str(index) for index in self.bound})

    @cached_property
    def height(self) -> int:
        return max((factor.height for factor, _ in self.factors), default=0)

    @property
    def is_number(self) -> bool:
        """1, without bound indices, guards or factors."""
        return not (self.bound or self.guards or self.factors)

    def renamed(self) -> Product:
        """The same product under fresh bound indices."""
        names = {old: current().fresh("k") for old in self.bound}
        return self.renamed_to(names)

    def renamed_to(self, names: Mapping[Index, Index]) -> Product:
        """The same product with bound indices renamed (to names it does not mention)."""
        if not names:
            return self
        values: dict[Atom, Dim] = {old: Expression.of(new) for old, new in names.items()}
        guards = frozenset(g for g in (substitute_formula(guard, values) for guard in self.guards) if isinstance(g, Formula))
        factors = {f.relabelled(values) if f.free & names.keys() else f: power for f, power in self.factors}
        return Product(tuple(names.get(b, b) for b in self.bound), guards, sorted_factors(factors))


def mask(text: str, names: set[str]) -> str:
    """The text with the given index names made anonymous."""
    return INDEX_NAME.sub(lambda found: "•" if found.group() in names else found.group(), text)


def sorted_factors(factors: Mapping[Factor, int]) -> tuple[tuple[Factor, int], ...]:
    """Factors with their powers in the order of their keys."""
    return tuple(sorted(factors.items(), key=lambda item: item[0].key))


ONE = Product((), frozenset(), ())


class Value:
    """A sum of products with rational coefficients; Python's + − · work on values and numbers."""

    __slots__ = ("__dict__", "terms")

    def __init__(self, terms: dict[Product, Fraction]) -> None:
        self.terms = terms

    @staticmethod
    def of(item: Any) -> Value:
        """A number, factor or product as a value."""
        if isinstance(item, Value):
            return item
        if isinstance(item, Factor):
            return Value({Product((), frozenset(), ((item, 1),)): Fraction(1)})
        if isinstance(item, Product):
            return Value({item: Fraction(1)})
        try:
            number = Fraction(str(item)) if isinstance(item, float) else Fraction(item)
        except (TypeError, ValueError) as error:
            raise NotImplementedError(f"{item!r} is not a real number") from error
        return Value({ONE: number} if number else {})

    @cached_property
    def free(self) -> frozenset[Symbol]:
        return frozenset(s for product in self.terms for s in product.free)

    @cached_property
    def height(self) -> int:
        """How deep factors nest inside."""
        return max((product.height for product in self.terms), default=0)

    @cached_property
    def key(self) -> str:
        pieces = sorted(f"{coefficient}·{product.key}" for product, coefficient in self.terms.items())
        return " + ".join(pieces) or "0"

    @property
    def number(self) -> Fraction | None:
        """The rational number when the value is one."""
        if not self.terms:
            return Fraction(0)
        if len(self.terms) == 1 and ONE in self.terms:
            return self.terms[ONE]
        return None

    @property
    def single(self) -> tuple[Product, Fraction] | None:
        """The only product and its coefficient."""
        return next(iter(self.terms.items())) if len(self.terms) == 1 else None

    @property
    def factor(self) -> Factor | None:
        """The factor when the value is just one."""
        if len(self.terms) == 1:
            ((product, coefficient),) = self.terms.items()
            if coefficient == 1 and not product.bound and not product.guards and len(product.factors) == 1 and product.factors[0][1] == 1:
                return product.factors[0][0]
        return None

    def __add__(self, other: Any) -> Value:
        other = _operand(other)
        terms = dict(self.terms)
        for product, coefficient in other.terms.items():
            value = terms.get(product, Fraction(0)) + coefficient
            if value:
                terms[product] = value
            else:
                terms.pop(product, None)
        return Value(terms)

    __radd__ = __add__

    def __neg__(self) -> Value:
        return self.scaled(Fraction(-1))

    def __sub__(self, other: Any) -> Value:
        return self + (-_operand(other))

    def __rsub__(self, other: Any) -> Value:
        return _operand(other) + (-self)

    def scaled(self, number: Fraction) -> Value:
        """The value times a number."""
        return Value({product: coefficient * number for product, coefficient in self.terms.items()}) if number else Value({})

    def __mul__(self, other: Any) -> Value:
        from verifier.proof.normalise import multiply

        other = _operand(other)
        for left, right in ((self, other), (other, self)):
            if right.number is not None:
                return left.scaled(right.number)
        return multiply(self, other)

    __rmul__ = __mul__

    def replaced(self, values: Substitution) -> Value:
        """The value with symbols replaced by integer expressions."""
        from verifier.proof.normalise import replaced

        return replaced(self, values)

    def relabelled(self, names: Substitution) -> Value:
        """The value with free index variables renamed to fresh ones; its form stays as it is."""
        wanted = {old: Index(str(new)) for old, new in names.items() if isinstance(old, Index) and old in self.free}
        return Value({product.renamed_to(wanted): coefficient for product, coefficient in self.terms.items()}) if wanted else self

    def canonical(self) -> Value:
        """The same value with its bound indices named by their order; what stands inside factors is canonical already."""
        found = self.__dict__.get("canonical_form")
        if found is None:
            terms: dict[Product, Fraction] = {}
            for product, coefficient in self.terms.items():
                named = _canonical_product(product)
                terms[named] = terms.get(named, Fraction(0)) + coefficient
            found = Value({product: coefficient for product, coefficient in terms.items() if coefficient})
            found.__dict__["canonical_form"] = found
            self.__dict__["canonical_form"] = found
        return found

    def __str__(self) -> str:
        return self.key

    __repr__ = __str__


def _operand(value: Any) -> Value:
    return value if isinstance(value, Value) else Value.of(value)


def _canonical_product(product: Product) -> Product:
    if not product.bound:
        return product
    names = {str(index) for index in product.bound}
    order: dict[str, None] = {}
    texts = [factor.key for factor, _ in product.factors]
    for text in sorted(texts, key=lambda t: mask(t, names)) + sorted(map(str, product.guards), key=lambda t: mask(t, names)):
        order.update(dict.fromkeys(name for name in INDEX_NAME.findall(text) if name in names))
    stem = "s" * (product.height + 1)
    wanted = {Index(name): Index(f"{stem}{str(i + 1).translate(SUBSCRIPTS)}") for i, name in enumerate(order)}
    if set(wanted) == set(wanted.values()) and all(a == b for a, b in wanted.items()):
        return _with_bound(product, tuple(wanted))
    apart = product.renamed() if set(wanted.values()) & (product.mentioned | set(product.bound)) else product
    if apart is not product:
        fresh = dict(zip(product.bound, apart.bound, strict=True))
        wanted = {fresh[old]: new for old, new in wanted.items()}
    return _with_bound(apart.renamed_to(wanted), tuple(wanted.values()))


def _with_bound(product: Product, bound: tuple[Index, ...]) -> Product:
    if len(bound) != len(product.bound):
        raise AssertionError("a bound index that is mentioned nowhere")
    return product if product.bound == bound else Product(bound, product.guards, product.factors)


def as_value(dim: Dim) -> Value:
    """An integer expression as a number: a polynomial of sizes."""
    if isinstance(dim, int):
        return Value.of(dim)
    result = Value({})
    for monomial, coefficient in dim.terms.items():
        powers: dict[Factor, int] = {}
        computed = []
        for atom in monomial:
            if isinstance(atom, Data):
                computed.append(atom.value)
            else:
                factor = Size(atom)
                powers[factor] = powers.get(factor, 0) + 1
        term = Value({Product((), frozenset(), sorted_factors(powers)): Fraction(coefficient)})
        for value in computed:
            term = term * Value({product.renamed(): number for product, number in value.terms.items()})
        result = result + term
    return result
