"""Laws made of two functions, and whether they are proved for all shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from rewrites.rule import Equality, Rule
from verifier.proof.rules import RuleProof, prove_rule


def law_of(shapes: tuple[str, ...], left: Callable[..., Any], right: Callable[..., Any], equality: Equality = Equality.REAL) -> type[Rule]:
    """The law that the functions agree on one tensor x of floats or on two, x and y, of these shapes."""

    def of_one(x):
        return left(x)

    def of_two(x, y):
        return left(x, y)

    pattern, replacement = ((of_one, lambda x: right(x)), (of_two, lambda x, y: right(x, y)))[len(shapes) - 1]
    pattern.__annotations__ = {name: Float[Tensor, shape] for name, shape in zip("xy", shapes, strict=False)}
    body = {"__doc__": "A law.", "source": "a test", "pattern": staticmethod(pattern), "replacement": staticmethod(replacement)}
    return type("Law", (Rule,), body | {"equality": equality})


def proof_of(
    shapes: tuple[str, ...],
    left: Callable[..., Any],
    right: Callable[..., Any],
    timeout: float = 10.0,
    equality: Equality = Equality.REAL,
) -> RuleProof:
    """The proof of the law that the functions agree on tensors of these shapes."""
    return prove_rule(law_of(shapes, left, right, equality), timeout=timeout)
