"""What is refused when a rule is defined, each with its sentence; what a rule's content is."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Pair, Requires, Rule, RuleDefinitionError, Weight
from rewrites.signature import Signature


def refusal(define) -> str:
    with pytest.raises(RuleDefinitionError) as caught:
        define()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_rule_without_docstring_is_refused():
    def define():
        class Silent(Rule):
            source = "derived here"

            def pattern(x: Float[Tensor, "n"]):
                return torch.relu(x)

            def replacement(x):
                return torch.relu(x)

    assert refusal(define) == "Silent: a rule needs a docstring that states its law in one sentence"


def test_a_docstring_is_not_inherited_from_the_base_class():
    def define():
        class Silent(Rule):
            source = "derived here"

            def pattern(x: Float[Tensor, "n"]):
                return x

            replacement = pattern

    assert "docstring" in refusal(define)


def test_a_rule_without_source_is_refused():
    def define():
        class Unsourced(Rule):
            """Relu is relu."""

            def pattern(x: Float[Tensor, "n"]):
                return torch.relu(x)

            def replacement(x):
                return torch.relu(x)

    assert "a rule needs a `source`" in refusal(define)


def test_a_rule_without_replacement_is_refused():
    def define():
        class Half(Rule):
            """Relu is."""

            source = "derived here"

            def pattern(x: Float[Tensor, "n"]):
                return torch.relu(x)

    assert refusal(define) == "Half: a rule needs a function named replacement"


def test_different_signatures_are_refused():
    def define():
        class Crossed(Rule):
            """Addition commutes."""

            source = "derived here"

            def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
                return x + y

            def replacement(y, x):
                return y + x

    assert refusal(define) == "Crossed: pattern and replacement must have the same parameters, got (x, y) and (y, x)"


def test_a_replacement_variable_that_the_pattern_does_not_bind_is_refused():
    def define():
        class Conjured(Rule):
            """Relu is relu plus something."""

            source = "derived here"

            def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
                return torch.relu(x)

            def replacement(x, y):
                return torch.relu(x) + y

    assert refusal(define) == "Conjured: the replacement uses y, which the pattern does not bind"


def test_an_unknown_name_in_a_condition_is_refused():
    def define():
        class Misnamed(Rule):
            """Addition commutes."""

            source = "derived here"
            requires = [Requires("rows are few", lambda rows: rows <= 3)]

            def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
                return x + y

            def replacement(x, y):
                return y + x

    assert refusal(define) == 'Misnamed: the condition "rows are few" speaks of rows, which is neither a dim nor a parameter'


def test_a_condition_that_is_only_a_string_is_refused():
    def define():
        class Worded(Rule):
            """Addition commutes."""

            source = "derived here"
            requires = ["n > 1"]

            def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
                return x + y

            def replacement(x, y):
                return y + x

    assert refusal(define) == """Worded: requires must hold Requires("a sentence", lambda …: …), got 'n > 1'"""


def test_conditions_for_the_other_direction_need_another_direction():
    def define():
        class OneWay(Rule):
            """Zero added is nothing."""

            source = "arithmetic"
            requires_reversed = [Requires("there is an element", lambda n: n >= 1)]

            def pattern(a: Float[Tensor, "n"]):
                return a + 0

            def replacement(a):
                return a

    assert refusal(define) == "OneWay: requires_reversed is for rules with bidirectional = True"


def test_a_name_in_a_condition_that_is_both_a_dim_and_a_parameter_is_refused():
    def define():
        class Unclear(Rule):
            """Addition commutes."""

            source = "derived here"
            requires = [Requires("the width is not zero", lambda w: w >= 1)]

            def pattern(x: Float[Tensor, "w"], w: Float[Tensor, "w"]):
                return x + w

            def replacement(x, w):
                return w + x

    assert refusal(define) == 'Unclear: the condition "the width is not zero" speaks of w, which is both a dim and a parameter'


def test_a_parameter_without_annotation_is_refused():
    def define():
        class Bare(Rule):
            """Addition commutes."""

            source = "derived here"

            def pattern(x, y):
                return x + y

            def replacement(x, y):
                return y + x

    assert "parameter x needs an annotation" in refusal(define)


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (str, "must be a jaxtyping tensor"),
        (Float[Tensor, "#n"], "for broadcasting"),
        (Float[Tensor, "n**2"], "must be made of names"),
    ],
)
def test_unusable_annotations_are_refused(annotation, sentence):
    def pattern(x):
        return x

    pattern.__annotations__ = {"x": annotation}
    assert sentence in refusal(lambda: Signature.of("Some", pattern))


def test_functions_may_be_written_without_staticmethod():
    class Plain(Rule):
        """Addition commutes."""

        source = "derived here"

        def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
            return x + y

        def replacement(x, y):
            return y + x

    assert torch.equal(Plain.pattern(torch.ones(2), torch.ones(2)), torch.full((2,), 2.0))
    assert Plain.statement() == "Addition commutes."


def scaled_by(factor):
    class Scaled(Rule):
        """A scale moves."""

        source = "derived here"

        def pattern(x: Float[Tensor, "n"], stride: Pair, weight: Weight[Float[Tensor, "n"]]):
            return (x + weight) * factor

        def replacement(x, stride, weight):
            return x * factor + weight * factor

    return Scaled


def test_content_is_decided_by_what_the_functions_compute_from():
    assert scaled_by(2.0).content() == scaled_by(2.0).content()
    assert scaled_by(2.0).content() != scaled_by(3.0).content()


def test_content_changes_with_a_condition_and_with_the_equality():
    def rule(limit, equality_class):
        class Bounded(Rule):
            """Addition commutes."""

            source = "derived here"
            equality = equality_class
            requires = [Requires("few rows", lambda n: n <= limit)]

            def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
                return x + y

            def replacement(x, y):
                return y + x

        return Bounded.content()

    contents = {rule(3, Equality.REAL), rule(4, Equality.REAL), rule(3, Equality.BITWISE)}
    contents.add(rule(3, Equality.REAL.allowing(Change.SIGNED_ZERO)))
    assert len(contents) == 4


LIMITS = [1.0]


def helper(x):
    return x * LIMITS[0]


def through_helpers():
    class Helped(Rule):
        """A helper is called from a function inside the pattern."""

        source = "derived here"

        def pattern(x: Float[Tensor, "n"]):
            return torch.relu((lambda y: helper(y))(x))

        def replacement(x):
            return helper(torch.relu(x))

    return Helped.content()


def test_content_follows_helpers_and_the_values_of_globals(monkeypatch):
    before = through_helpers()
    assert through_helpers() == before
    monkeypatch.setitem(globals(), "LIMITS", [2.0])
    changed = through_helpers()
    assert changed != before
    monkeypatch.setitem(globals(), "helper", lambda x: x + LIMITS[0])
    assert through_helpers() not in (before, changed)


def test_content_does_not_depend_on_the_process(tmp_path):
    import subprocess
    import sys

    program = "from rewrites.library import library\nprint([rule.content() for rule in library()[:5]])\n"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
