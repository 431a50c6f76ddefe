"""Operators of operators/ take part in discovery: their residues, their text, and the laws that are found."""

from __future__ import annotations

import itertools
import json

import pytest
import torch
import torch.nn.functional as F

from rewright.discovery import discover
from rewrites.generator.declared import declared
from rewrites.generator.discovery import Findings
from rewrites.generator.residues import Residue, Residues
from rewrites.generator.vocabulary import OPERATIONS, SORTS, chosen, sorts_for, sources
from rewrites.generator.world import PRIME, WORLDS, World

POLYNOMIAL = (
    "AddMatMul",
    "AvgPool2d",
    "Cat",
    "Conv1d",
    "Cumsum",
    "Flip",
    "Linear",
    "Negative",
    "Roll",
    "Subtract",
    "Sum",
    "Tril",
)
"""Operators that compute whole numbers of whole numbers, or of thirty-sixths of them."""


def operands_of(name: str, world: World) -> tuple[torch.Tensor, ...]:
    """Small whole numbers of shapes that the operation takes."""
    operation = OPERATIONS[name]
    for shapes in itertools.product([sort.shape(world) for sort in SORTS.values()], repeat=len(operation.ranks)):
        if any(rank is not None and rank != len(shape) for rank, shape in zip(operation.ranks, shapes, strict=True)):
            continue
        operands = tuple(torch.remainder(world.draw(shape), 7)[None] * 36 for shape in shapes)
        try:
            operation.kernel(world, *operands)
        except (ValueError, IndexError):
            continue
        return operands
    raise AssertionError(f"{name} takes no inputs")


@pytest.mark.parametrize("family", POLYNOMIAL)
def test_residues_are_what_the_text_computes(family: str) -> None:
    for operation in chosen([family]):
        for world in WORLDS:
            operands = operands_of(operation.name, world)
            names = dict(zip("abcdef", (operand[0] for operand in operands), strict=False))
            computed = eval(operation.text.format(*names), {"torch": torch, "F": F, **names})
            found = operation.kernel(world, *operands)[0]
            assert torch.equal(computed.round(), computed)
            assert torch.equal(found, torch.remainder(computed, PRIME))


def test_quotients_powers_and_order_are_consistent() -> None:
    algebra = Residues(WORLDS[0])
    x = Residue(WORLDS[0].draw((50,)))
    y = Residue(WORLDS[0].draw((50,)))
    assert torch.equal((algebra.apply("divide", x, y) * y).values, x.values)
    assert torch.equal(algebra.apply("power", x, 3).values, (x * x * x).values)
    assert torch.equal((algebra.apply("power", x, -1) * x).values, torch.ones(50, dtype=torch.float64))
    assert torch.equal((algebra.apply("sign", x) * algebra.apply("abs", x)).values, x.values)
    assert torch.equal(algebra.apply("abs", -x).values, algebra.apply("abs", x).values)
    both = algebra.apply("maximum", x, y) + algebra.apply("minimum", x, y)
    assert torch.equal(both.values, (x + y).values)
    assert torch.equal(algebra.compare(">", x, y), algebra.compare("<", y, x))
    with pytest.raises(ValueError, match="a number must have a residue, got inf"):
        algebra.constant(float("inf"))


def test_an_operator_is_known_by_its_name_and_by_torchs() -> None:
    assert declared("log_softmax") == declared("LogSoftmax") != []
    assert {operation.text for operation in declared("softmax")} == {"torch.softmax({0}, -1)", "torch.softmax({0}, -2)"}
    assert declared("layer_norm")[0].text == "F.layer_norm({0}, [{0}.shape[-1]], weight={1}, bias={2}, eps=0.5)"
    assert "u" in sorts_for(chosen(["layer_norm"]))
    assert declared("nothing") == []


def test_who_cannot_take_part_says_why() -> None:
    with pytest.raises(ValueError, match=r"Uniform: must compute real numbers .*draws random numbers"):
        chosen(["Uniform"])
    with pytest.raises(ValueError, match=r"operators: must be among add, .* or an operator of docs/operators.md, got nothing"):
        chosen(["nothing"])
    assert len(sources(2, 1, "mu")) == 3


def test_laws_of_softmax_and_roots_are_found() -> None:
    found = {str(candidate) for candidate in discover(["Softmax", "transpose"], 2, inputs=(1, 0)).candidates}
    assert "Softmax_1(transpose(m0))  =  transpose(Softmax_2(m0))" in found
    findings = discover(["Sqrt", "Reciprocal", "Rsqrt"], 2, inputs=(1, 0))
    assert "Reciprocal(Sqrt(m0))  =  Rsqrt(m0)" in {str(candidate) for candidate in findings.candidates}
    text = json.dumps(findings.to_json())
    for name in ("Sqrt", "Reciprocal", "Rsqrt"):
        del OPERATIONS[name]  # as in a process that only reads what was found
    assert [found.name for found, _ in Findings.from_json(json.loads(text)).kept] == [found.name for found, _ in findings.kept]
    assert "Rsqrt" in OPERATIONS
    assert all(judgement.status == "PROVED" for _, judgement in findings.kept)
