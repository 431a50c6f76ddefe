"""Gradients: for rules that may be used in training, the vector-Jacobian products of both sides are compared in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from rewrites.rule import Equality, Rule
from verifier.comparing import Difference, Judgement, Kind, Standard
from verifier.instances import Instance, Space
from verifier.running import run_sides
from verifier.shrinking import smallest
from verifier.testing import Failure, Report, Stage, check, search
from verifier.values import ORDINARY

_STAGE = Stage("gradients", (ORDINARY,), ("float64",), 0.2, plain=True)


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Small whole numbers in a fixed pattern, as the gradient that arrives at an output."""
    pattern = torch.arange(output.numel(), dtype=torch.float64) * 7 % 5 - 1
    return pattern.reshape(output.shape).to(output.dtype)


def product_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function's vector-Jacobian product: the gradients of its floating inputs, zeros where it does not depend on one."""

    @functools.wraps(function)
    def gradients(*arguments: Any) -> list[torch.Tensor]:
        given = [a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]
        result = function(*given)
        outputs = [
            o for o in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(o, torch.Tensor) and o.requires_grad
        ]
        inputs = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
        if not outputs:
            return [torch.zeros_like(a) for a in inputs]
        found = torch.autograd.grad(outputs, inputs, [cotangent(o) for o in outputs], allow_unused=True)
        return [torch.zeros_like(a) if g is None else g.detach() for a, g in zip(inputs, found, strict=True)]

    return gradients


def gradient_rule(rule: type[Rule]) -> type[Rule]:
    """The rule that both sides' vector-Jacobian products are equal."""
    body = {
        "__doc__": f"The gradients of both sides of {rule.__name__} are equal.",
        "source": "derived",
        "equality": Equality(False, rule.equality.changes),
        "requires": rule.requires,
        "pattern": staticmethod(product_of(rule.pattern)),
        "replacement": staticmethod(product_of(rule.replacement)),
    }
    return type(f"{rule.__name__}Gradients", (Rule,), body)


def compare_gradients(rule: type[Rule], space: Space, examples: int, seed: int, deadline: float) -> Report:
    """Compare the sides' gradients on drawn instances; the report's failure is on the rule of gradients."""
    derived = gradient_rule(rule)
    report = Report()
    standard = Standard(derived.equality)

    def judge(instance: Instance) -> Difference | None:
        if not all(tensor.numel() for tensor in instance.tensors.values()):
            return None  # PyTorch's own gradients of means over nothing are NaN
        of_gradients = replace(instance, rule=derived)
        found = check(of_gradients, standard, report)
        if found is None or (found.kind is Kind.VALUE and _within_single_precision(of_gradients)):
            return None
        return _in_words(found, instance)

    failure = search(space, _STAGE, standard, max(4, round(examples * _STAGE.share)), seed + 77, deadline, report, judge)
    if failure is not None:
        instance, difference = smallest(space, failure.instance, failure.difference, judge, deadline)
        report.failure = Failure(instance, difference, report.examples)
    return report


def _within_single_precision(instance: Instance) -> bool:
    """The gradients are as near as rounding to float32 allows: PyTorch's backward kernels hold constants such as 1/6 in that precision."""
    left, right = run_sides(instance)
    allowed = Judgement.of(instance).bound(torch.float64) * torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps
    pairs = zip(left.outputs, right.outputs, strict=True)
    return all(bool(((a - b).abs() <= allowed).all()) for a, b in pairs)


def _in_words(difference: Difference, instance: Instance) -> Difference:
    if difference.kind is Kind.ERROR:
        return replace(difference, kind=Kind.GRADIENT, sentence=f"in the backward pass, {difference.sentence}")
    names = [n for n, t in instance.tensors.items() if t.is_floating_point()]
    name = names[difference.output] if difference.output < len(names) else "an input"
    return replace(difference, kind=Kind.GRADIENT, sentence=f"the gradients of {name} differ")


TAIL = """
def gradients(side):
    given = [a.detach().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments()]
    result = side(*given)
    outputs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(o, torch.Tensor) and o.requires_grad]
    inputs = [a for a in given if isinstance(a, torch.Tensor) and a.requires_grad]
    if not outputs:
        return [torch.zeros_like(a) for a in inputs]
    cotangents = [(torch.arange(o.numel(), dtype=torch.float64) * 7 % 5 - 1).reshape(o.shape).to(o.dtype) for o in outputs]
    found = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
    return [torch.zeros_like(a) if g is None else g for a, g in zip(inputs, found)]


left, right = gradients(pattern), gradients(replacement)
print("gradients of the pattern:", *left, sep="\\n")
print("gradients of the replacement:", *right, sep="\\n")
same = all(torch.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True) for a, b in zip(left, right))
print("the gradients agree" if same else "the gradients differ")
sys.exit(0 if same else 1)
""".strip()


__all__ = ["TAIL", "compare_gradients", "gradient_rule", "product_of"]
