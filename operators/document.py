"""docs/operators.md, written from the declarations: `python -m operators.document [FILE]`."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from pathlib import Path

import operators  # noqa: F401 (declares them)
from operators.operator import OPERATORS, Operator, torch_aliases

INTRODUCTION = """# Operators

This page is written by `python -m operators.document` from the declarations in `operators/`; do not edit it.

An operator is declared once, in its family's file, with its shape rule, dtype rule, meaning per element, cost, gradient and
effects; `tests/operators/test_agreement.py` holds each of these against torch's own kernel and against autograd. Axes are counted
from the end (−1 is the last). What torch takes as a Python float is an operand here (a scalar of weak type); what it takes as
an integer, boolean or word is an attribute. A call that no operator covers is kept as an opaque node.

"Torch names" stand for `torch.NAME`, `torch.nn.functional.NAME`, `torch.Tensor.NAME` and every overload of `torch.ops.aten.NAME`;
their in-place forms (`add_`) stand for the same operator where a graph is functional.

Integers in a meaning are the mathematical ones; kernels wrap them.
"""


def families() -> dict[str, list[type[Operator]]]:
    """The operators by the module that declares them, in the order of declaration."""
    found: dict[str, list[type[Operator]]] = {}
    for declared in (kind for kind in OPERATORS.values() if kind.__module__.startswith("operators.")):
        found.setdefault(declared.__module__, []).append(declared)
    return dict(sorted(found.items()))


def aliases() -> dict[str, list[str]]:
    """Torch's names that `bind` writes with other operators, by module."""
    found: dict[str, list[str]] = {}
    for name, alias in torch_aliases().items():
        found.setdefault(alias.bind.__module__, []).append(name)
    return found


def attributes(declared: type[Operator]) -> str:
    """The attributes with their types and defaults, or a dash."""
    shown = []
    for field in dataclasses.fields(declared):  # type: ignore[arg-type]
        default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
        shown.append(f"`{field.name}: {field.type}{default}`")
    return ", ".join(shown) or "none"


def effects(declared: type[Operator]) -> str:
    """What the operator does besides computing; for both values of `training` where that matters."""
    names = [field.name for field in dataclasses.fields(declared)]  # type: ignore[arg-type]
    blank = object.__new__(declared)
    if "training" not in names:
        for name in names:
            object.__setattr__(blank, name, "")
        return str(blank.effects)
    said = []
    for training in (True, False):
        object.__setattr__(blank, "training", training)
        said.append(f"{blank.effects} {'in' if training else 'outside'} training")
    return "; ".join(said)


def has_gradient(declared: type[Operator]) -> bool:
    """The operator, or what it builds on, declares a gradient."""
    return declared.gradient is not Operator.gradient


def section(declared: type[Operator]) -> str:
    """One operator."""
    doc = inspect.cleandoc(declared.__doc__ or "").split("\n")
    lines = [f"### {declared.__name__}", "", doc[0].strip()]
    rest = "\n".join(doc[1:]).strip("\n")
    if rest:
        lines += ["", "```text", rest, "```"]
    names = " ".join(f"`{name}`" for name in declared.torch_names) or "none of its own"
    lines += ["", f"* Attributes: {attributes(declared)}", f"* Torch names: {names}"]
    if declared.onnx_name:
        lines.append(f"* ONNX: `{declared.onnx_name}`")
    lines.append(f"* Effects: {effects(declared)}")
    if not has_gradient(declared):
        lines.append("* Gradient: none declared")
    return "\n".join(lines)


def document() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    composed = aliases()
    for module, declared in families().items():
        doc = (inspect.getdoc(sys.modules[module]) or "").strip()
        parts.append(f"## {module.removeprefix('operators.').replace('_', ' ')}\n\n{doc}\n")
        parts += [section(one) + "\n" for one in declared]
        if composed.get(module):
            names = " ".join(f"`{name}`" for name in sorted(composed[module]))
            parts.append(f"Written with these and other operators: {names}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/operators.md").write_text(document(), encoding="utf-8")
