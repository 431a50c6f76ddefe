"""Gradients: for rules that may be used in training, the vector-Jacobian products of both sides are compared in float64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from rewrites.rule import Equality, Rule
from verifier.comparing import Difference, Standard, compare
from verifier.instances import Instance, Space
from verifier.judging import Judgement, Kind
from verifier.running import run_sides
from verifier.shrinking import smallest
from verifier.testing import Failure, Report, Stage, check, search
from verifier.values import ORDINARY

_STAGE = Stage("gradients", (ORDINARY,), ("float64",), 0.2, plain=True)


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Small whole numbers in a fixed pattern, as the gradient that arrives at an output."""
    pattern = torch.arange(output.numel(), dtype=torch.float64) * 7 % 5 - 1
    return pattern.reshape(output.shape).to(output.dtype)


def product_of(function: Callable[..., Any], both: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The function's vector-Jacobian product: the gradients of its floating inputs, zeros where it does not depend on one.

    Inputs by which one of `both` sides cannot be differentiated in PyTorch (a batch norm's statistics) are constants.
    """

    @functools.wraps(function)
    def gradients(*arguments: Any) -> list[torch.Tensor]:
        wanted = [isinstance(a, torch.Tensor) and a.is_floating_point() for a in arguments]
        try:
            return _gradients(function, arguments, wanted)
        except RuntimeError as error:
            if _NO_DERIVATIVE not in str(error):
                raise
        wanted = [by and _differentiable(both, arguments, position) for position, by in enumerate(wanted)]
        return _gradients(function, arguments, wanted)

    return gradients


_NO_DERIVATIVE = "is not differentiable with respect to argument"


def _gradients(function: Callable[..., Any], arguments: Sequence[Any], wanted: Sequence[bool]) -> list[torch.Tensor]:
    given = [a.detach().requires_grad_() if by else a for a, by in zip(arguments, wanted, strict=True)]
    result = function(*given)
    outputs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(o, torch.Tensor) and o.requires_grad]
    floating = [a for a in given if isinstance(a, torch.Tensor) and a.is_floating_point()]
    inputs = [a for a in floating if a.requires_grad]
    if not outputs or not inputs:
        return [torch.zeros_like(a) for a in floating]
    found = iter(torch.autograd.grad(outputs, inputs, [cotangent(o) for o in outputs], allow_unused=True))
    products = [next(found) if a.requires_grad else None for a in floating]
    return [torch.zeros_like(a) if g is None else g.detach() for a, g in zip(floating, products, strict=True)]


def _differentiable(functions: Sequence[Callable[..., Any]], arguments: Sequence[Any], position: int) -> bool:
    given = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    given[position].requires_grad_()
    try:
        for function in functions:
            function(*given)
    except RuntimeError as error:
        if _NO_DERIVATIVE not in str(error):
            raise
        return False
    return True


def gradient_rule(rule: type[Rule]) -> type[Rule]:
    """The rule that both sides' vector-Jacobian products are equal."""
    body = {
        "__doc__": f"The gradients of both sides of {rule.__name__} are equal.",
        "source": "derived",
        "equality": Equality(False, rule.equality.changes),
        "requires": rule.requires,
        "pattern": staticmethod(product_of(rule.pattern, (rule.pattern, rule.replacement))),
        "replacement": staticmethod(product_of(rule.replacement, (rule.pattern, rule.replacement))),
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
        if found is not None:
            found = _where_finite(of_gradients, standard)
        if found is None or (found.kind is Kind.VALUE and _within_single_precision(of_gradients)):
            return None
        return _in_words(found, instance)

    failure = search(space, _STAGE, standard, max(4, round(examples * _STAGE.share)), seed + 77, deadline, report, judge)
    if failure is not None:
        instance, difference = smallest(space, failure.instance, failure.difference, judge, deadline)
        report.failure = Failure(instance, difference, report.examples)
    return report


def _where_finite(instance: Instance, standard: Standard) -> Difference | None:
    """The difference where the pattern's own gradients are finite; elsewhere (√x at 0, or below it) there are none to keep."""
    left, right = run_sides(instance)
    if left.error is None and right.error is None:
        pairs = zip(left.outputs, right.outputs, strict=True)
        right = replace(right, outputs=[torch.where(a.isfinite(), b, a) if a.shape == b.shape else b for a, b in pairs])
    return compare(instance, left, right, standard)


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
def given(wanted):
    return [a.detach().requires_grad_() if k in wanted else a for k, a in enumerate(arguments())]


def differentiable(k):
    try:
        pattern(*given({k})), replacement(*given({k}))
    except RuntimeError as error:
        return "is not differentiable with respect to argument" not in str(error)
    return True


wanted = {k for k, a in enumerate(arguments()) if isinstance(a, torch.Tensor) and a.is_floating_point() and differentiable(k)}


def gradients(side):
    inputs = given(wanted)
    result = side(*inputs)
    outputs = [o for o in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(o, torch.Tensor) and o.requires_grad]
    inputs = [inputs[k] for k in sorted(wanted)]
    if not outputs:
        return [torch.zeros_like(a) for a in inputs]
    cotangents = [(torch.arange(o.numel(), dtype=torch.float64) * 7 % 5 - 1).reshape(o.shape).to(o.dtype) for o in outputs]
    found = torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
    return [torch.zeros_like(a) if g is None else g for a, g in zip(inputs, found)]


left, right = gradients(pattern), gradients(replacement)
print("gradients of the pattern:", *left, sep="\\n")
print("gradients of the replacement:", *right, sep="\\n")
kept = [torch.where(a.isfinite(), b, a) for a, b in zip(left, right)]  # where the pattern has no finite gradient, there is none to keep
same = all(torch.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True) for a, b in zip(left, kept))
print("the gradients agree" if same else "the gradients differ")
sys.exit(0 if same else 1)
""".strip()


__all__ = ["TAIL", "compare_gradients", "gradient_rule", "product_of"]
