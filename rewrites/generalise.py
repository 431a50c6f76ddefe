"""Sizes that must be equal: from shapes in which every size is a symbol of its own to the most general shapes that fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from operators.expressions import Atom, Dim, Expression, Monomial, Quotient, Symbol, divide_exactly, floor_divide, substitute, symbol
from operators.formulas import Comparison, equal
from rewrites.unification import linear


class IncompatibleSizesError(ValueError):
    """Equations between sizes that no sizes satisfy; the message names the equation."""


class Equations:
    """Equations between sizes, solved one symbol at a time.

    `solution` expresses the symbols that are determined by the others; `open` are the equations that express none. Sizes that
    multiply both sides of an equation are taken to be at least 1, and products that must be multiples of a size are written as
    such, by a new symbol for the factor. Symbols named `fixed` are replaced by numbers only.
    """

    def __init__(self, fixed: Iterable[str] = ()) -> None:
        self.solution: dict[Atom, Dim] = {}
        self.open: list[Dim] = []
        self._fixed = {Symbol(name) for name in fixed}

    def value(self, dim: Dim) -> Dim:
        """The size, in terms of the symbols that remain."""
        return substitute(dim, self.solution)

    def add(self, *equations: tuple[Dim, Dim]) -> None:
        """Let the two sides of each equation be equal.

        Raises: IncompatibleSizesError when an equation cannot hold.
        """
        pending = [left - right for left, right in equations] + self.open
        self.open = []
        patient = True
        while pending:
            waiting, pending = pending, []
            progress = False
            for difference in waiting:
                value = self.value(difference)
                if isinstance(value, int):
                    if value:
                        raise IncompatibleSizesError(f"the sizes cannot be equal: {difference} = 0")
                    progress = True
                elif self._solve(reduced := _reduced(value), patient):
                    progress = True
                else:
                    pending.append(reduced)
            if not progress:
                if not patient:
                    self.open = pending
                    return
                patient = False

    def _solve(self, value: Expression, patient: bool) -> bool:
        """Express one symbol of `value = 0` by the others; a patient solver leaves it when a difference of sizes would result."""
        for whole, divisor in _multiples(value):
            self._assign(whole, symbol(f"{whole.name}'") * divisor)
            return True
        choices: list[tuple[int, str, Symbol, Dim]] = []
        for atom in value.atoms:
            if not isinstance(atom, Symbol):
                continue
            rest = _without(value, atom)
            if rest is None or (atom in self._fixed and not isinstance(rest, int)):
                continue
            negative = (isinstance(rest, int) and rest < 0) or (isinstance(rest, Expression) and any(c < 0 for c in rest.terms.values()))
            if not (negative and patient):
                choices.append((len(Expression.of(rest).terms), atom.name, atom, rest))
        if not choices:
            return False
        fewest = min(choice[0] for choice in choices)
        _, _, atom, rest = max((choice for choice in choices if choice[0] == fewest), key=lambda choice: choice[1])
        self._assign(atom, rest)
        return True

    def _assign(self, atom: Symbol, value: Dim) -> None:
        one: Mapping[Atom, Dim] = {atom: value}
        self.solution = {known: substitute(old, one) for known, old in self.solution.items()} | {atom: value}


def _without(value: Expression, atom: Symbol) -> Dim | None:
    """What `atom` is when `value` is zero; None when that is no polynomial of the others."""
    parts = linear(value, atom)
    if parts is None or parts[0] == 0:
        return None
    return divide_exactly(-parts[1], parts[0])


def _multiples(value: Expression) -> list[tuple[Symbol, Dim]]:
    """Symbols that `value = 0` makes multiples of a divisor: from `s − d·⌊s/d⌋`."""
    found = []
    for atom in value.atoms:
        if isinstance(atom, Quotient) and len(atom.numerator.terms) == 1:
            ((monomial, coefficient),) = atom.numerator.terms.items()
            whole = atom.numerator - atom.denominator * Expression.of(atom)
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol) and value in (whole, -whole):
                found.append((monomial[0], atom.denominator.collapse()))
    return found


def _reduced(value: Expression) -> Expression:
    """The equation divided by the factors that all of its terms share."""
    monomials = list(value.terms)
    shared: list[Atom] = []
    rest = [list(monomial) for monomial in monomials]
    for atom in monomials[0]:
        if all(atom in monomial for monomial in rest):
            shared.append(atom)
            for monomial in rest:
                monomial.remove(atom)
    factor: Monomial = tuple(shared)
    divided = divide_exactly(value, Expression({factor: 1}).collapse()) if factor else value
    quotients: dict[Atom, Dim] = {atom: _cancelled(atom) for atom in value.atoms if isinstance(atom, Quotient)}
    statement = equal(substitute(value if divided is None else divided, quotients), 0)
    return statement.expression if isinstance(statement, Comparison) else value


def _cancelled(quotient: Quotient) -> Dim:
    """The quotient without a size that divides numerator and denominator."""
    top, bottom = quotient.numerator, quotient.denominator
    for atom in bottom.atoms:
        factor = Expression.of(atom)
        above, below = divide_exactly(top, factor), divide_exactly(bottom, factor)
        if above is not None and below is not None:
            return floor_divide(above, below)
    return Expression.of(quotient)


def letters(shapes: Sequence[Sequence[Dim]], taken: Iterable[str]) -> dict[Atom, Dim]:
    """Short names for the symbols of shapes, by where each first occurs: n c h w for images, m k for matrices, o i for kernels."""
    usual = {1: "c", 2: "mk", 3: "bmk", 4: "nchw", 5: "ncdhw"}
    used = set(taken)
    names: dict[Atom, Dim] = {}
    for shape in shapes:
        for axis, dim in enumerate(shape):
            for atom in sorted(dim.symbols if isinstance(dim, Expression) else (), key=lambda symbol: symbol.name):
                if atom in names or atom.name in taken:
                    continue
                wish = usual.get(len(shape), "")[axis : axis + 1]
                free = [letter for letter in wish + "opqrstuvabdefgijl" if letter not in used]
                name = free[0] if free else f"{atom.name.strip(chr(39))}_{len(used)}"
                used.add(name)
                names[atom] = symbol(name)
    return names


def source_of(dim: Dim) -> str:
    """A size as Python source."""
    if isinstance(dim, int):
        return str(dim)
    pieces = []
    for monomial in sorted(dim.terms, key=lambda m: (-len(m), tuple(atom.key for atom in m))):
        coefficient = dim.terms[monomial]
        factors = sorted((_atom_source(atom) for atom in monomial), key=lambda text: (-len(text), text))
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        pieces.append(("-" if coefficient < 0 else "+") + "*".join(factors))
    text = "".join(pieces)
    return text[1:] if text.startswith("+") else text


def _atom_source(atom: Atom) -> str:
    if isinstance(atom, Quotient):
        return f"(({source_of(atom.numerator)})//({source_of(atom.denominator)}))"
    return str(atom)
