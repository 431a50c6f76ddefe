"""Bare pairs of functions: which sizes become symbols, which of them are one, which stay numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from rewrites import RuleDefinitionError
from rewrites.cases import cases, trace_case
from rewrites.pairs import rule_from_pair
from rewrites.signature import ChoiceVariable, IntegerVariable, RealVariable
from tests.rewrites.building import build, draw, rewrite_once


def shapes(rule):
    return {variable.name: " ".join(map(str, variable.dims)) for variable in rule.signature().tensors}


def traced(rule):
    return [trace_case(rule, case) for case in cases(rule)]


def test_equal_sizes_that_need_not_be_equal_are_symbols_of_their_own():
    rule = rule_from_pair(lambda a, b: torch.relu(a @ b), lambda a, b: torch.relu(a @ b), [torch.randn(4, 4), torch.randn(4, 4)])
    first, second = (text.split() for text in shapes(rule).values())
    assert first[1] == second[0]
    assert len({*first, *second}) == 3


def test_sizes_that_must_be_equal_are_one_symbol():
    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1), -1) @ v

    rule = rule_from_pair(attention, attention, [torch.randn(2, 4, 8, 16)] * 3)
    q, k, v = (text.split() for text in shapes(rule).values())
    assert q[:2] == k[:2] == v[:2]
    assert q[3] == k[3] and k[2] == v[2]
    assert len({*q, *k, *v}) == 6
    assert traced(rule)


def test_products_are_found():
    rule = rule_from_pair(
        lambda x, y: x.reshape(x.shape[0], -1) + y, lambda x, y: y + x.flatten(1), [torch.randn(2, 3, 4), torch.randn(2, 12)]
    )
    x, y = (text.split() for text in shapes(rule).values())
    assert y == [x[0], "*".join(sorted(x[1:]))]


def test_channels_of_a_convolution_are_shared_with_its_kernel():
    rule = rule_from_pair(
        lambda x, w, b: F.relu(F.conv2d(x, w, b)), lambda x, w, b: F.relu(F.conv2d(x, w, b)),
        [torch.randn(2, 3, 8, 8), torch.randn(3, 3, 3, 3), torch.randn(3)],
    )  # fmt: skip
    x, w, b = (text.split() for text in shapes(rule).values())
    assert x[1] == w[1] and w[0] == b[0] and x[1] != w[0]


def test_a_size_of_one_and_a_size_the_pattern_fixes_stay_numbers():
    rule = rule_from_pair(lambda x, y: x + y, lambda x, y: y + x, [torch.randn(3, 4), torch.randn(3, 1)])
    assert shapes(rule) == {"x": "m k", "y": "m 1"}

    def halves(x):
        return x[:, :4] + x[:, 4:8]

    rule = rule_from_pair(halves, lambda x: sum(x.split(4, 1)), [torch.randn(2, 8)])
    assert shapes(rule) == {"x": "m 8"}
    assert traced(rule)


def test_numbers_and_booleans_are_attributes():
    rule = rule_from_pair(lambda x, n, e, keep: (x * n + e).sum(-1, keep), lambda x, n, e, keep: (e + n * x).sum(-1, keep),
                          [torch.randn(2, 3), 3, 1e-5, True])  # fmt: skip
    kinds = [type(variable) for variable in rule.signature().variables][1:]
    assert kinds == [IntegerVariable, RealVariable, ChoiceVariable]


def test_one_dtype_is_generalised_and_several_are_kept():
    same = rule_from_pair(lambda x, w: x @ w, lambda x, w: x @ w, [torch.randn(2, 3).half(), torch.randn(3, 2).half()])
    assert {variable.kind for variable in same.signature().tensors} == {"float"}
    mixed = rule_from_pair(
        lambda x, w: x.to(torch.bfloat16) @ w, lambda x, w: x.bfloat16() @ w, [torch.randn(2, 3), torch.randn(3, 2).bfloat16()]
    )
    assert [variable.dtypes for variable in mixed.signature().tensors] == [("float32",), ("bfloat16",)]
    index = rule_from_pair(lambda x, i: x[i], lambda x, i: torch.index_select(x, 0, i), [torch.randn(4, 3), torch.tensor([1, 2])])
    assert [variable.kind for variable in index.signature().tensors] == ["float", "int"]


def test_parameters_may_have_other_names():
    rule = rule_from_pair(lambda a, b: a - b, lambda p, q: -(q - p), [torch.randn(3), torch.randn(3)])
    assert rule.signature().names == ("a", "b")
    inputs = {"x": draw(5), "y": draw(5, seed=1)}
    rewrite_once(rule, build(lambda x, y: x - y, inputs), inputs)


def test_a_pair_is_matched_at_other_sizes_than_its_examples():
    rule = rule_from_pair(lambda c, a, b: c + a @ b, torch.addmm, [torch.randn(2), torch.randn(2, 2), torch.randn(2, 2)])
    inputs = {"a": draw(3, 4), "c": draw(5)}
    rewrite_once(rule, build(lambda a, c, b: a @ b + c, inputs, {"b": draw(4, 5)}), inputs)


@pytest.mark.parametrize(
    ("pattern", "replacement", "examples", "sentence"),
    [
        (lambda x: x, lambda x, y: x, [torch.randn(2)], "one for each argument of the replacement (x, y), got 1"),
        (lambda x, y: x + y, lambda x, y: x + y, [torch.randn(2)], "one for each argument of the pattern (x, y), got 1"),
        (lambda x: torch.relu(x), lambda x: x, ["text"], "must be a tensor, a number or a boolean, got str"),
        (lambda x, y: x @ y, lambda x, y: y @ x, [torch.randn(2, 3), torch.randn(2, 3)], "cannot be traced on the example inputs"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_with_a_sentence(pattern, replacement, examples, sentence):
    with pytest.raises(RuleDefinitionError) as caught:
        rule_from_pair(pattern, replacement, examples)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_arguments_with_a_default_need_no_example():
    def scaled(x, factor=2.0):
        return torch.relu(x) * factor

    rule = rule_from_pair(scaled, lambda x: 2.0 * torch.relu(x), [torch.randn(3)])
    assert rule.signature().names == ("x",)
    inputs = {"x": draw(5)}
    rewrite_once(rule, build(lambda x: torch.relu(x) * 2.0, inputs), inputs)
