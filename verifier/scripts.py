"""A rule's two sides as code, and the self-contained script that shows a counterexample again."""

from __future__ import annotations

import inspect
import math
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from verifier.comparing import Difference
from verifier.instances import Instance
from verifier.judging import Judgement, Kind
from verifier.running import Call, record
from verifier.values import laid_out


class NotSelfContained(ValueError):
    """A function whose source does not stand on its own; its recorded calls are shown instead."""


def side_source(function: Callable[..., Any], name: str) -> str:
    """The side's source, as written; one comment line where there is none."""
    try:
        return renamed_source(function, name)
    except NotSelfContained:
        return f"# {name}: its source is not at hand"


def renamed_source(function: Callable[..., Any], name: str) -> str:
    """The source of a function written with `def`, dedented, without decorators, under the given name.

    Raises: NotSelfContained when there is no such source.
    """
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, IndentationError) as error:
        raise NotSelfContained(str(error)) from error
    lines = text.splitlines()
    while lines and not lines[0].startswith("def "):
        lines.pop(0)
    if not lines:
        raise NotSelfContained("not written with def")
    head = lines[0].split("(", 1)
    return "\n".join([f"def {name}({head[1]}", *lines[1:]])


def self_contained(function: Callable[..., Any], name: str) -> tuple[str, list[str]]:
    """The function's source with everything it uses, and the imports that it needs.

    Raises: NotSelfContained when it closes over or reads something that has no source.
    """
    pieces: list[str] = []
    imports: dict[str, None] = {}
    done: set[int] = set()

    def add(part: Callable[..., Any], as_name: str) -> None:
        if id(part) in done:
            return
        done.add(id(part))
        source = renamed_source(part, as_name)
        for used, value in _used(part).items():
            _define(used, value, pieces, imports, add)
        pieces.append(source)

    add(function, name)
    return "\n\n\n".join(pieces), list(imports)


def _define(name: str, value: Any, pieces: list[str], imports: dict[str, None], add: Callable[[Callable[..., Any], str], None]) -> None:
    if isinstance(value, types.ModuleType):
        if value.__name__.split(".")[0] not in ("torch", "math", "numpy", "functools", "itertools", "operator"):
            raise NotSelfContained(f"module {value.__name__}")
        imports[f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"] = None
    elif isinstance(value, (bool, int, str, type(None))) or (isinstance(value, float) and math.isfinite(value)):
        pieces.append(f"{name} = {value!r}")
    elif isinstance(value, torch.dtype):
        pieces.append(f"{name} = {value}")
    elif isinstance(value, types.FunctionType) and not value.__module__.startswith("torch"):
        add(value, name)
    elif getattr(value, "__module__", "") and hasattr(value, "__name__"):
        if not str(value.__module__).startswith(("torch", "math")):
            raise NotSelfContained(f"{name} of {value.__module__}")
        imports[f"from {value.__module__} import {value.__name__} as {name}"] = None
    else:
        raise NotSelfContained(f"{name} = {value!r}")


def _used(function: Callable[..., Any]) -> dict[str, Any]:
    code = function.__code__
    names = _names(code)
    found = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        found[name] = cell.cell_contents
    return found


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def recorded_source(function: Callable[..., Any], instance: Instance, name: str) -> str:
    """The side as a straight line of the torch calls it made on the instance."""
    names = instance.rule.signature().names
    arguments = instance.arguments()
    outcome, calls = record(function, arguments, instance.seed)
    known: dict[int, str] = {
        id(value): parameter for parameter, value in zip(names, arguments, strict=True) if isinstance(value, torch.Tensor)
    }
    lines = [f"def {name}({', '.join(names)}):"]
    for position, call in enumerate(calls):
        lines.append(f"    t{position} = {call_text(call, known)}")
        results = call.result if isinstance(call.result, (tuple, list)) else None
        known[id(call.result)] = f"t{position}"
        for part, result in enumerate(results or ()):
            known[id(result)] = f"t{position}[{part}]"
    returned = ", ".join(_text(value, known) for value in outcome.outputs)
    lines.append(f"    return {returned}" + ("," if len(outcome.outputs) == 1 and not outcome.outputs else ""))
    return "\n".join(lines)


def call_text(call: Call, known: Mapping[int, str]) -> str:
    """A recorded call as code, with tensors by their names."""
    arguments = [_text(value, known) for value in call.arguments]
    arguments += [f"{key}={_text(value, known)}" for key, value in call.keywords.items() if value is not None]
    if call.name.endswith(".__get__"):
        return f"{arguments[0]}.{call.name.split('.')[-2]}"
    return f"{call.name}({', '.join(arguments)})"


def _text(value: Any, known: Mapping[int, str]) -> str:
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, torch.Tensor):
        return tensor_code(value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(_text(item, known) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, slice):
        return f"slice({value.start}, {value.stop}, {value.step})"
    return number_code(value) if isinstance(value, float) else repr(value)


def number_code(value: float) -> str:
    """A float as code."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def tensor_code(tensor: torch.Tensor) -> str:
    """A tensor as code, element by element."""
    tensor = tensor.detach()
    dtype = str(tensor.dtype)
    if tensor.numel() == 0:
        return f"torch.zeros({list(tensor.shape)}, dtype={dtype})"
    flat = tensor.contiguous().flatten().tolist()
    if len(set(map(repr, flat))) == 1 and len(flat) > 4:
        return f"torch.full({list(tensor.shape)}, {_number(flat[0])}, dtype={dtype})"
    return f"torch.tensor({_nested(tensor.tolist())}, dtype={dtype})"


def _nested(value: Any) -> str:
    return "[" + ", ".join(map(_nested, value)) + "]" if isinstance(value, list) else _number(value)


def _number(value: Any) -> str:
    return number_code(value) if isinstance(value, float) else repr(value)


def layout_code(name: str, layout: str, tensor: torch.Tensor) -> str | None:
    """The statement that lays a tensor out in memory; None for a contiguous one."""
    if layout == "contiguous" or (laid_out(tensor, layout).stride() == tensor.contiguous().stride() and layout != "offset"):
        return None
    strides, offset = laid_out(tensor, layout).stride(), int(layout == "offset")
    room = offset + 1 + sum(max(size - 1, 0) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    view = f"as_strided({tuple(tensor.shape)}, {strides}, {offset})"
    return f"{name} = torch.zeros({room}, dtype={tensor.dtype}).{view}.copy_({name})  # {layout}"


def script(instance: Instance, difference: Difference, statement: str, tail: str | None = None) -> str:
    """A self-contained PyTorch script that exits 1 while the two sides differ on the instance."""
    rule = instance.rule
    imports: dict[str, None] = {}
    bodies: list[str] = []
    for side in ("pattern", "replacement"):
        function = getattr(rule, side)
        try:
            body, needed = self_contained(function, side)
            imports.update(dict.fromkeys(needed))
        except NotSelfContained:
            body = recorded_source(function, instance, side)
        if body not in bodies:
            bodies.append(body)
    imports.pop("import torch", None)
    lines = [
        '"""' + f"{rule.__name__}: {statement}".replace("\\", "\\\\").replace('"""', "'''"),
        "",
        f"{difference.kind}: {difference.sentence}. Exits 1 while this stands.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "import sys",
        "import warnings",
        *sorted(imports),
        "",
        "import torch",
        "",
        'warnings.simplefilter("ignore")',
        "torch.set_num_threads(1)",
        "",
        "",
        "\n\n\n".join(bodies),
        "",
        "",
        *_arguments_code(instance),
        "",
        tail if tail is not None else _comparison_code(instance, difference),
    ]
    return "\n".join(lines) + "\n"


def _arguments_code(instance: Instance) -> list[str]:
    lines = ["def arguments():"]
    names = instance.rule.signature().names
    values = instance.named
    ordered = sorted(names, key=lambda name: name in instance.shared)
    for name in ordered:
        value = values[name]
        if name in instance.shared:
            lines.append(f"    {name} = {instance.shared[name]}")
        elif isinstance(value, torch.Tensor):
            lines.append(f"    {name} = {tensor_code(value)}")
            laid = layout_code(name, instance.layouts.get(name, "contiguous"), value)
            lines += [f"    {laid}"] if laid else []
        else:
            lines.append(f"    {name} = {_text(value, {})}")
    lines.append(f"    return [{', '.join(names)}]")
    return lines


def _comparison_code(instance: Instance, difference: Difference) -> str:
    bound = 0.0
    if difference.kind is Kind.VALUE:
        tensors = [t for t in instance.tensors.values() if t.is_floating_point()]
        if tensors:
            bound = Judgement.of(instance).bound(tensors[0].dtype)
    body = _COMPARISON.replace("SEED", str(instance.seed)).replace("BOUND", repr(bound))
    numbers = {difference.left, difference.right}.isdisjoint(("nan", "inf", "-inf"))
    tests = {
        Kind.VALUE: "same = values_agree" if numbers else "same = classes_agree",
        Kind.UNDEFINED: "same = classes_agree",
        Kind.NAN_INF: "same = classes_agree and values_agree",
        Kind.OVERFLOW: "same = classes_agree and values_agree",
        Kind.SIGNED_ZERO: "same = bits_agree",
        Kind.ROUNDING: "same = bits_agree",
        Kind.MUTATION: "same = arguments_agree",
        Kind.RANDOMNESS: "same = random_agrees",
        Kind.ALIASING: "same = memory_agrees",
    }
    return body.replace("VERDICT", tests.get(difference.kind, "same = values_agree and classes_agree"))


_COMPARISON = """
def outputs(side):
    torch.manual_seed(SEED)
    given = arguments()
    result = side(*given)
    return (list(result) if isinstance(result, (tuple, list)) else [result]), given, torch.get_rng_state()


def close(a, b, bound=BOUND):
    if not isinstance(a, torch.Tensor):
        return a == b
    both = torch.isfinite(a) & torch.isfinite(b) if a.is_floating_point() else torch.ones_like(a, dtype=torch.bool)
    return bool(((a[both].double() - b[both].double()).abs() <= bound).all()) if not a.is_complex() else torch.equal(a, b)


def alike(a, b):
    return not isinstance(a, torch.Tensor) or not a.is_floating_point() or bool(
        ((torch.isfinite(a) == torch.isfinite(b)) & (torch.isnan(a) == torch.isnan(b))).all()
    )


def bitwise(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b
    nan = (a != a) & (b != b)
    same = (a == b) | nan
    return bool(((same & (torch.signbit(a) == torch.signbit(b))) | nan).all()) if a.is_floating_point() else bool(same.all())


def shared(values, given):
    homes = {a.untyped_storage().data_ptr(): i for i, a in enumerate(given) if isinstance(a, torch.Tensor)}
    return [homes.get(v.untyped_storage().data_ptr()) if isinstance(v, torch.Tensor) else None for v in values]


left, left_arguments, left_state = outputs(pattern)
print("pattern:", *left, sep="\\n")
try:
    right, right_arguments, right_state = outputs(replacement)
except Exception as error:
    print("the replacement raises", type(error).__name__ + ":", error)
    sys.exit(1)
print("replacement:", *right, sep="\\n")
if len(left) != len(right):
    print("number of outputs:", len(left), "and", len(right))
    sys.exit(1)
for a, b in zip(left, right):
    tensors = isinstance(a, torch.Tensor) + isinstance(b, torch.Tensor)
    if tensors == 1 or (tensors == 2 and (a.shape, a.dtype) != (b.shape, b.dtype)):
        print("shape or dtype:", getattr(a, "shape", a), getattr(a, "dtype", ""), "and", getattr(b, "shape", b), getattr(b, "dtype", ""))
        sys.exit(1)
values_agree = all(map(close, left, right))
classes_agree = all(map(alike, left, right))
bits_agree = all(map(bitwise, left, right))
arguments_agree = all(close(a, b) and alike(a, b) for a, b in zip(left_arguments, right_arguments) if isinstance(a, torch.Tensor))
random_agrees = torch.equal(left_state, right_state)
memory_agrees = shared(left, left_arguments) == shared(right, right_arguments)
VERDICT
print("the two sides agree" if same else "the two sides differ")
sys.exit(0 if same else 1)
""".strip()


__all__ = ["NotSelfContained", "call_text", "recorded_source", "script", "self_contained", "side_source", "tensor_code"]
