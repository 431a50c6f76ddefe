"""TASO's rule collection, written as JSON, as rules: each becomes the Python source of a `Rule` and is compiled from it.

TASO applies a substitution only where the new operators accept their operands, so the sizes are the most general ones for
which both sides are well-formed; what no choice of names can express becomes a condition. A convolution's number of groups
follows from its operands there; here the pattern's convolutions share the variable `groups`, and those of the replacement
divide the channels of their operands, as TASO does.

Source: Jia et al., TASO: optimizing deep learning computation with automatic generation of graph substitutions, SOSP 2019.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from operators.expressions import Dim, Expression, Quotient, floor_divide, remainder, substitute, symbol
from rewrites.generalise import Equations, IncompatibleSizesError, letters, source_of
from rewrites.rule import Rule

SOURCE = "Jia et al., TASO, SOSP 2019 (the published rule collection)"
ACTIVATIONS = {"AC_MODE_NONE": "", "AC_MODE_RELU": "F.relu", "AC_MODE_SIGMOID": "torch.sigmoid", "AC_MODE_TANH": "torch.tanh"}
UNARY = {"OP_RELU": "F.relu", "OP_SIGMOID": "torch.sigmoid", "OP_TANH": "torch.tanh"}
BINARY = {"OP_EW_ADD": "+", "OP_EW_MUL": "*"}


class TasoError(ValueError):
    """A file that is not a rule collection as TASO writes it; the message names file, rule and field."""


def load_taso(path: str | Path) -> list[type[Rule]]:
    """The rules of a TASO collection, in the file's order; rule 17 is the class `Taso17`.

    Raises: TasoError with one sentence.
    """
    try:
        entries = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise TasoError(f"{path}: cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise TasoError(f"{path}:{error.lineno}: is not JSON: {error.msg}") from error
    if not isinstance(entries, list) or not entries:
        raise TasoError(f"{path}: must be a list of rules")
    return [rule_of(entry, str(path)) for entry in entries]


def rule_of(entry: Mapping[str, Any], path: str = "TASO") -> type[Rule]:
    """One entry of a collection as a rule.

    Raises: TasoError naming the field.
    """
    name = f"Taso{entry['id']}" if isinstance(entry, dict) and "id" in entry else "Taso"
    try:
        source = _Translation(name, entry).source()
    except (KeyError, TypeError, IndexError) as error:
        raise TasoError(f"{path}: {name}: is not of TASO's form: {type(error).__name__}: {error}") from error
    except (TasoError, IncompatibleSizesError) as error:
        raise TasoError(f"{path}: {name}: {error}") from error
    file = f"<{path}::{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(_IMPORTS, file, "exec"), namespace)
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]  # type: ignore[no-any-return]


_IMPORTS = """
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from rewrites.rule import Equality, Requires, Rule
"""

Key = tuple[int, int]
"""A tensor in one side of an entry: operator and output, or an input by its negative number."""


class _Side:
    """One side of an entry: its operators, and what is known of its tensors."""

    def __init__(self, operators: Sequence[Mapping[str, Any]]) -> None:
        self.operators = [(op["type"], [(i["opId"], i["tsId"]) for i in op["inputs"]], op["params"]) for op in operators]
        for kind, _, _ in self.operators:
            if kind not in (*UNARY, *BINARY, "OP_MATMUL", "OP_CONV2D", "OP_CONCAT", "OP_SPLIT"):
                raise TasoError(f"operator {kind} is not known")

    @property
    def inputs(self) -> list[Key]:
        found = {key for _, keys, _ in self.operators for key in keys if key[0] < 0}
        return sorted(found, key=lambda key: (-key[0], key[1]))


class _Translation:
    """The Python source of one entry."""

    def __init__(self, name: str, entry: Mapping[str, Any]) -> None:
        self.name = name
        self.left, self.right = _Side(entry["srcOp"]), _Side(entry["dstOp"])
        mapped = [(m["srcOpId"], m["srcTsId"], m["dstOpId"], m["dstTsId"]) for m in entry["mappedOutput"]]
        if not mapped:
            raise TasoError("mappedOutput names no output")
        self.outputs = ([(m[0], m[1]) for m in mapped], [(m[2], m[3]) for m in mapped])
        self.inputs = self.left.inputs
        unbound = [key for key in self.right.inputs if key not in self.inputs]
        if unbound:
            raise TasoError(f"the replacement uses {_input(unbound[0])}, which the pattern does not bind")
        self.groups: Dim | None = symbol("groups")
        self.grouped = any(kind == "OP_CONV2D" for kind, _, _ in self.left.operators)

    def source(self) -> str:
        shapes, conditions = self._shapes()
        groups = "1" if self.groups is None else "groups"
        parameters = [_input(key) for key in self.inputs]
        annotated = [f'{_input(key)}: Float[Tensor, "{shapes[key]}"]' for key in self.inputs]
        if self.grouped and self.groups is not None:
            parameters.append("groups")
            annotated.append("groups: int")
        left, said = _code(self.left, self.outputs[0], groups)
        right, becomes = _code(self.right, self.outputs[1], None)
        lines = [
            f"class {self.name}(Rule):",
            f'    """{said} is {becomes}."""',
            "",
            f"    source = {SOURCE!r}",
            "    equality = Equality.REAL",
            *(["    requires = ["] + [f"        {condition}," for condition in conditions] + ["    ]"] if conditions else []),
            "",
            "    @staticmethod",
            f"    def pattern({', '.join(annotated)}):",
            *left,
            "",
            "    @staticmethod",
            f"    def replacement({', '.join(parameters)}):",
            *right,
        ]
        return "\n".join(lines) + "\n"

    def _ranks(self) -> dict[Key, int | None]:
        """The rank of every input; None where only pointwise operators see it, which hold at any rank."""
        ranks: dict[tuple[str, Key], int] = {}
        sides = (("l", self.left), ("r", self.right))

        def label(side: str, key: Key) -> tuple[str, Key]:
            return ("", key) if key[0] < 0 else (side, key)

        for _ in range(2 + len(self.left.operators) + len(self.right.operators)):
            for side, graph in sides:
                for number, (kind, keys, params) in enumerate(graph.operators):
                    places = [label(side, key) for key in keys] + [label(side, (number, o)) for o in range(params.get("PM_NUM_OUTPUTS", 1))]
                    known = {"OP_MATMUL": 2, "OP_CONV2D": 4}.get(kind) or params.get("PM_NUMDIM")
                    known = known or next((ranks[place] for place in places if place in ranks), None)
                    if known:
                        ranks.update(dict.fromkeys(places, known))
            for first, second in zip(*self.outputs, strict=True):
                pair = (label("l", first), label("r", second))
                known = next((ranks[place] for place in pair if place in ranks), None)
                if known:
                    ranks.update(dict.fromkeys(pair, known))
        found = {key: ranks.get(("", key)) for key in self.inputs}
        if None in found.values() and any(found.values()):
            raise TasoError("the number of axes of some inputs is not determined")
        return found

    def _shapes(self) -> tuple[dict[Key, str], list[str]]:
        """The inputs' shapes in jaxtyping's notation, and the conditions that shapes cannot express."""
        ranks = self._ranks()
        if None in ranks.values():
            return dict.fromkeys(self.inputs, "*shape"), []
        given = {key: tuple(symbol(f"{_input(key)}_{axis}") for axis in range(rank or 0)) for key, rank in ranks.items()}
        equations = Equations(fixed=["groups"])
        for side in (self.left, self.right):
            for _ in range(2):
                shapes = {key: tuple(equations.value(dim) for dim in shape) for key, shape in given.items()}
                equations.add(*_equations(side, shapes, derived=side is self.right))
        groups = equations.value(symbol("groups"))
        if isinstance(groups, int):
            if groups != 1:
                raise TasoError(f"its convolutions have {groups} groups")
            self.groups = None
        solved = [tuple(equations.value(dim) for dim in given[key]) for key in self.inputs]
        names = letters(solved, taken=["groups", *map(_input, self.inputs)])
        renamed = [tuple(substitute(dim, names) for dim in shape) for shape in solved]
        texts = {key: " ".join(map(source_of, shape)) for key, shape in zip(self.inputs, renamed, strict=True)}
        conditions = [_condition(substitute(equations.value(left), names)) for left in equations.open]
        return texts, list(dict.fromkeys(conditions))


def _condition(difference: Dim) -> str:
    """A condition, as source, that the size is zero."""
    assert isinstance(difference, Expression)
    names = ", ".join(sorted(atom.name for atom in difference.symbols))
    for atom in difference.atoms:
        if isinstance(atom, Quotient) and difference in _whole(atom):
            text = f"{_factor(atom.numerator)} % {_factor(atom.denominator)} == 0"
            return f'Requires("the replacement is well-formed: {text}", lambda {names}: {text})'
    positive = source_of(type(difference)({m: c for m, c in difference.terms.items() if c > 0}).collapse())
    negative = source_of(type(difference)({m: -c for m, c in difference.terms.items() if c < 0}).collapse())
    return f'Requires("the replacement is well-formed: {positive} == {negative}", lambda {names}: {positive} == {negative})'


def _factor(dim: Expression) -> str:
    text = source_of(dim.collapse())
    return text if text.isalnum() else f"({text})"


def _whole(quotient: Quotient) -> tuple[Dim, Dim]:
    """What is zero when the division leaves no remainder."""
    rest = quotient.numerator - quotient.denominator * Expression.of(quotient)
    return rest, -rest


def _equations(side: _Side, inputs: Mapping[Key, tuple[Dim, ...]], derived: bool) -> Iterable[tuple[Dim, Dim]]:
    """What the operators of a side require of sizes."""
    shapes = dict(inputs)
    found: list[tuple[Dim, Dim]] = []
    cuts: dict[tuple[Key, int], tuple[Dim, Dim]] = {}
    for number, (kind, keys, params) in enumerate(side.operators):
        operands = [shapes[key] for key in keys]
        here = (number, 0)
        if kind == "OP_MATMUL":
            (m, k), (rows, n) = operands
            found.append((k, rows))
            shapes[here] = (m, n)
        elif kind == "OP_CONV2D":
            (samples, channels, h, w), (out, per_group, kernel_height, kernel_width) = operands
            groups = floor_divide(channels, per_group) if derived else symbol("groups")
            found += [(channels, groups * per_group), (remainder(out, groups), 0)]
            found += [(kernel_height, params["PM_KERNEL_H"]), (kernel_width, params["PM_KERNEL_W"])]
            padding = _padding(params)
            rooms = [size + 2 * p - params[f"PM_KERNEL_{a}"] for size, p, a in zip((h, w), padding, "HW", strict=True)]
            strides = (params["PM_STRIDE_H"], params["PM_STRIDE_W"])
            shapes[here] = (samples, out, *(floor_divide(room, stride) + 1 for room, stride in zip(rooms, strides, strict=True)))
        elif kind == "OP_CONCAT":
            axis = params["PM_AXIS"]
            first = operands[0]
            found += [(first[a], other[a]) for other in operands[1:] for a in range(len(first)) if a != axis]
            shapes[here] = tuple(sum((o[axis] for o in operands[1:]), first[axis]) if a == axis else d for a, d in enumerate(first))
        elif kind == "OP_SPLIT":
            pieces = cuts[keys[0], params["PM_AXIS"]]
            for output, size in enumerate(pieces):
                shapes[number, output] = tuple(size if a == params["PM_AXIS"] else d for a, d in enumerate(operands[0]))
        else:
            found += [pair for other in operands[1:] for pair in zip(operands[0], other, strict=True)]
            shapes[here] = operands[0]
        for axis, sources in _cut_sources(kind, keys, params, len(operands[0])).items():
            pieces = [shapes[source[0]][source[1]] for source in sources] if len(sources) > 1 else cuts.get(sources[0])  # type: ignore[assignment]
            if pieces:
                cuts[here, axis] = tuple(pieces)  # type: ignore[assignment]
    return found


def _padding(params: Mapping[str, Any]) -> tuple[int, int]:
    mode = params["PM_PAD"]
    if mode in ("PD_MODE_VALID", 1):
        return 0, 0
    if mode not in ("PD_MODE_SAME", 0):
        raise TasoError(f"padding {mode} is not known")
    kernel, stride = (params["PM_KERNEL_H"], params["PM_KERNEL_W"]), (params["PM_STRIDE_H"], params["PM_STRIDE_W"])
    if stride != (1, 1) or not all(k % 2 for k in kernel):
        raise TasoError(f"same padding needs stride 1 and odd kernels, got stride {stride} and kernel {kernel}")
    return (kernel[0] - 1) // 2, (kernel[1] - 1) // 2


def _cut_sources(kind: str, keys: Sequence[Key], params: Mapping[str, Any], rank: int) -> dict[int, list[tuple[Key, int]]]:
    """For each axis of an operator's output, where its cut comes from: several tensors joined here, or one operand's axis."""
    if kind == "OP_CONCAT":
        joined = {params["PM_AXIS"]: [(key, params["PM_AXIS"]) for key in keys]}
        return joined
    if kind == "OP_MATMUL":
        return {0: [(keys[0], 0)], 1: [(keys[1], 1)]}
    if kind == "OP_CONV2D":
        return {0: [(keys[0], 0)], 1: [(keys[1], 0)]}
    if kind == "OP_SPLIT":
        return {}
    return {axis: [(keys[0], axis)] for axis in range(rank)}


def _input(key: Key) -> str:
    return f"x{-key[0]}" + (f"_{key[1]}" if key[1] else "")


def _code(side: _Side, outputs: Sequence[Key], groups: str | None) -> tuple[list[str], str]:
    """The body of a function that computes the outputs, and the outputs as formulas."""
    names: dict[Key, str] = {key: _input(key) for key in side.inputs}
    said: dict[Key, str] = dict(names)
    cuts: dict[tuple[Key, int], list[str]] = {}
    lines = []
    for number, (kind, keys, params) in enumerate(side.operators):
        operands = [names[key] for key in keys]
        words = [said[key] for key in keys]
        here, result = (number, 0), f"y{number}"
        if kind == "OP_SPLIT":
            axis = params["PM_AXIS"]
            pieces = cuts.get((keys[0], axis))
            if pieces is None or len(pieces) != params["PM_NUM_OUTPUTS"]:
                raise TasoError(f"operator {number}: a split must undo a concatenation along its axis")
            parts = [f"{result}_{output}" for output in range(len(pieces))]
            lines.append(f"{', '.join(parts)} = torch.split({operands[0]}, [{', '.join(pieces)}], {axis})")
            for output, part in enumerate(parts):
                names[number, output], said[number, output] = part, f"split({words[0]}, {axis})[{output}]"
            continue
        call, text = _call(kind, operands, words, params, groups)
        lines.append(f"{result} = {call}")
        names[here], said[here] = result, text
        rank = params.get("PM_NUMDIM", 4)
        for axis, sources in _cut_sources(kind, keys, params, rank).items():
            found = [f"{names[key]}.shape[{a}]" for key, a in sources] if kind == "OP_CONCAT" else cuts.get(sources[0])
            if found:
                cuts[here, axis] = found
    returned = [names[key] for key in outputs]
    lines.append(f"return {', '.join(returned)}")
    return [f"        {line}" for line in lines], ", ".join(said[key] for key in outputs)


def _call(kind: str, operands: Sequence[str], words: Sequence[str], params: Mapping[str, Any], groups: str | None) -> tuple[str, str]:
    """An operator as Python source over names, and as a formula over formulas."""
    if kind in UNARY:
        function = UNARY[kind]
        return f"{function}({operands[0]})", f"{function.split('.')[1]}({words[0]})"
    if kind in BINARY:
        sign = BINARY[kind]
        return f"{operands[0]} {sign} {operands[1]}", f"({words[0]} {sign} {words[1]})"
    if kind == "OP_CONCAT":
        if params["PM_NUM_INPUTS"] != len(operands):
            raise TasoError(f"PM_NUM_INPUTS is {params['PM_NUM_INPUTS']}, got {len(operands)} inputs")
        return f"torch.cat([{', '.join(operands)}], {params['PM_AXIS']})", f"cat({', '.join(words)}, {params['PM_AXIS']})"
    activation = params["PM_ACTI"]
    if activation not in ACTIVATIONS:
        raise TasoError(f"activation {activation} is not known")
    if kind == "OP_MATMUL":
        call, text = f"{operands[0]} @ {operands[1]}", f"({words[0]} @ {words[1]})"
    else:
        count = groups or f"{operands[0]}.shape[1] // {operands[1]}.shape[1]"
        stride, padding = (params["PM_STRIDE_H"], params["PM_STRIDE_W"]), _padding(params)
        call = f"F.conv2d({operands[0]}, {operands[1]}, None, {stride}, {padding}, (1, 1), {count})"
        text = f"conv({', '.join(words)})"
    wrapper = ACTIVATIONS[activation]
    return (f"{wrapper}({call})", f"{wrapper.split('.')[1]}({text})") if wrapper else (call, text)
