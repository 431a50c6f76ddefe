"""Random models as Python text: straight-line programs over layers and tensors, each statement run while it is drawn."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

MOST_ELEMENTS = 20_000
"""A program ends when one of its values has more."""


@dataclass(frozen=True)
class Given:
    """An input of a program: `kind` is `normal`, `positive`, `whole` (0 to 4) or `bits` (0 and 1)."""

    shape: tuple[int, ...]
    dtype: str = "float64"
    kind: str = "normal"

    def tensor(self, generator: torch.Generator) -> Tensor:
        """A tensor of this form."""
        dtype = getattr(torch, self.dtype)
        if self.kind in ("whole", "bits"):
            return torch.randint(0, 5 if self.kind == "whole" else 2, self.shape, generator=generator).to(dtype)
        drawn = torch.randn(self.shape, generator=generator, dtype=torch.float64)
        return (drawn.abs() + 0.25 if self.kind == "positive" else drawn).to(dtype)


@dataclass(frozen=True)
class Statement:
    """Lines of code that assign `{out}` from the values `{0}`, `{1}`, … and parts of the module."""

    name: str
    text: str
    operands: tuple[int, ...] = ()

    def code(self, number: int) -> str:
        """The lines, with values named by number."""
        return self.text.format(*(f"v{k}" for k in self.operands), out=f"v{number}")


@dataclass(frozen=True)
class Program:
    """A model as text: inputs, layers and tensors by name, statements, and the form of what it returns (values by number).

    training: the mode it runs in   dynamic: the first axis of every input varies   imports: further lines of code
    seed: decides weights and inputs
    """

    inputs: tuple[Given, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    statements: tuple[Statement, ...] = ()
    returned: Any = 0
    training: bool = False
    dynamic: bool = False
    imports: tuple[str, ...] = ()
    seed: int = 0

    def source(self) -> str:
        """The module's class and the function that draws its weights, as code."""
        names = ", ".join(f"v{k}" for k in range(len(self.inputs)))
        code = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F", *self.imports, "", ""]
        code += ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        code += [f"        {_assignment(name, made)}" for name, made in self.parts.items()]
        code += ["", f"    def forward(self, {names}):"]
        for number, statement in enumerate(self.statements, len(self.inputs)):
            code += [f"        {line}" for line in statement.code(number).split("\n")]
        code += [f"        return {_returned(self.returned)}", "", "", _DRAWING.strip(), ""]
        return "\n".join(code)

    def module(self) -> nn.Module:
        """The module, with weights drawn from the seed."""
        source = self.source()
        file = f"<random model {hash(source) & 0xFFFFFFFF:08x}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"__name__": "random_model"}
        exec(compile(source, file, "exec"), namespace)
        torch.manual_seed(self.seed)
        module: nn.Module = namespace["Model"]()
        namespace["draw_weights"](module, self.seed)
        return module.train(self.training)

    def tensors(self, extra_rows: int = 0) -> tuple[Tensor, ...]:
        """Inputs drawn from the seed; `extra_rows` more on the first axis."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        wider = (replace(given, shape=(given.shape[0] + extra_rows, *given.shape[1:])) if given.shape else given for given in self.inputs)
        return tuple(given.tensor(generator) for given in wider)

    def __repr__(self) -> str:
        return f"{self.source()}\n# inputs: {', '.join(f'{g.dtype}{list(g.shape)}' for g in self.inputs)}; seed {self.seed}"


_DRAWING = '''
def draw_weights(module, seed):
    """Every floating weight and buffer anew, those of batch norms included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict(keep_vars=True).items():
            if tensor.is_floating_point() and not name.startswith("fixed"):
                drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * 0.5
                tensor.copy_(drawn.abs() + 0.5 if name.endswith("running_var") else drawn)
'''


def _assignment(name: str, made: str) -> str:
    kind, _, text = made.partition(" ")
    if kind in ("buffer", "temporary"):
        return f'self.register_buffer("{name}", {text}, persistent={kind == "buffer"})'
    return f"self.{name} = {made}"


def _returned(form: Any) -> str:
    if isinstance(form, dict):
        return "{" + ", ".join(f'"{key}": {_returned(part)}' for key, part in form.items()) + "}"
    if isinstance(form, tuple):
        return "(" + "".join(f"{_returned(part)}, " for part in form).rstrip() + ")"
    if isinstance(form, list):
        return "[" + ", ".join(map(_returned, form)) + "]"
    return f"v{form}" if isinstance(form, int) else repr(form)


class Impossible(ValueError):
    """A statement that PyTorch refuses; it is left out."""


@dataclass
class Builder:
    """The program being drawn, run statement by statement on real tensors so that every shape is known."""

    draw: Any
    inputs: list[Given] = field(default_factory=list)
    parts: dict[str, str] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    imports: dict[str, None] = field(default_factory=dict)
    training: bool = False
    seed: int = 0
    main: list[int] = field(default_factory=list)
    """Values that the program must return, or what is computed from them."""

    def __post_init__(self) -> None:
        self._shared: dict[tuple[Any, ...], str] = {}
        self._module = nn.Module().train(self.training)
        self._namespace: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "self": self._module}
        self._generator = torch.Generator().manual_seed(self.seed)

    def choose(self, *choices: Any) -> Any:
        """One of these; the first is the simplest."""
        return self.draw(st.sampled_from(choices))

    def whole(self, low: int, high: int) -> int:
        """A whole number in this range."""
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        """True or false."""
        return bool(self.draw(st.booleans()))

    def given(self, *shape: int, dtype: str = "float64", kind: str = "normal") -> int:
        """A new input; inputs come before all statements."""
        if self.statements:
            raise Impossible("an input after the first statement")
        self.inputs.append(Given(shape, dtype, kind))
        self.values.append(self.inputs[-1].tensor(self._generator))
        return len(self.values) - 1

    def pick(self, accept: Callable[[Tensor], bool]) -> int | None:
        """A value that is accepted, recent ones first."""
        choices = [k for k, value in enumerate(self.values) if isinstance(value, Tensor) and accept(value)]
        return self.choose(*choices[::-1]) if choices else None

    def apply(self, name: str, text: str, *operands: int) -> int:
        """Add a statement and run it; `text` is an expression, or lines that assign `{out}`.

        Raises: Impossible when PyTorch refuses it.
        """
        statement = Statement(name, text if "{out}" in text else f"{{out}} = {text}", operands)
        number = len(self.values)
        self._namespace.update({f"v{k}": self.values[k] for k in operands})
        try:
            with torch.no_grad():
                exec(statement.code(number), self._namespace)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise Impossible(f"{name}: {error}") from error
        self.statements.append(statement)
        self.values.append(self._namespace[f"v{number}"])
        return number

    def part(self, made: str, name: str = "part", share: bool = True) -> str:
        """`self.name` of a layer or tensor made by this code: one that is there already, or a new one."""
        if share and (made,) in self._shared and self.flag():
            return self._shared[made,]
        name = f"{name}{len(self.parts)}"
        exec(_assignment(name, made), self._namespace)
        self._module.train(self.training)
        self.parts[name] = made
        self._shared[made,] = f"self.{name}"
        return f"self.{name}"

    def use(self, name: str, value: Any, line: str) -> None:
        """Let statements use a name, which this line imports."""
        self.imports[line] = None
        self._namespace[name] = value

    def finish(self, returned: Any, dynamic: bool = False) -> Program:
        """The program as drawn so far."""
        return Program(
            tuple(self.inputs), dict(self.parts), tuple(self.statements), returned, self.training, dynamic, tuple(self.imports), self.seed
        )

    def below(self, number: int) -> set[int]:
        """The value and all that it is computed from."""
        found, first = {number}, len(self.inputs)
        for k in range(number, first - 1, -1):
            if k in found:
                found |= set(self.statements[k - first].operands)
        return found

    @property
    def full(self) -> bool:
        """The last value is too large to go on from."""
        last = self.values[-1]
        return isinstance(last, Tensor) and last.numel() > MOST_ELEMENTS


def floating(x: Tensor) -> bool:
    """The tensor holds real numbers."""
    return x.is_floating_point()


def shape_text(*sizes: int) -> str:
    """Sizes as code."""
    return ", ".join(map(str, sizes))


def names_in(text: str) -> set[str]:
    """The parts of the module that code reads."""
    return set(re.findall(r"self\.(\w+)", text))


def without_dead(program: Program) -> Program:
    """The program less the statements, parts and inputs that nothing returned needs."""
    count = len(program.inputs)
    needed = set(values_in(program.returned))
    for number in range(count + len(program.statements) - 1, count - 1, -1):
        if number in needed:
            needed |= set(program.statements[number - count].operands)
    inputs = [k for k in range(count) if k in needed] or [0]
    kept = [k for k in range(count, count + len(program.statements)) if k in needed]
    moved = {old: new for new, old in enumerate([*inputs, *kept])}
    statements = tuple(_renumbered(program.statements[k - count], moved) for k in kept)
    used = set().union(*(names_in(statement.text) for statement in statements)) if statements else set()
    return replace(
        program,
        inputs=tuple(program.inputs[k] for k in inputs),
        statements=statements,
        parts={name: made for name, made in program.parts.items() if name in used},
        returned=renamed(program.returned, moved),
    )


def _renumbered(statement: Statement, moved: Mapping[int, int]) -> Statement:
    return replace(statement, operands=tuple(moved[k] for k in statement.operands))


def values_in(form: Any) -> list[int]:
    """The values by number in a form that is returned."""
    if isinstance(form, dict):
        return [k for part in form.values() for k in values_in(part)]
    if isinstance(form, (tuple, list)):
        return [k for part in form for k in values_in(part)]
    return [form] if isinstance(form, int) else []


def renamed(form: Any, moved: Mapping[int, int]) -> Any:
    """The form with its values renumbered."""
    if isinstance(form, dict):
        return {key: renamed(part, moved) for key, part in form.items()}
    if isinstance(form, (tuple, list)):
        return type(form)(renamed(part, moved) for part in form)
    return moved[form] if isinstance(form, int) else form


def is_finite_size(x: Tensor) -> bool:
    """The tensor has elements, and not too many."""
    return 0 < math.prod(x.shape) <= MOST_ELEMENTS


__all__ = [
    "Builder", "Given", "Impossible", "Program", "Statement", "floating", "is_finite_size", "names_in", "renamed", "shape_text",
    "values_in", "without_dead",
]  # fmt: skip
