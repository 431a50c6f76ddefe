"""TASO's collection as rules. The collection itself lies outside the repository, under ../shared/data or $REWRIGHT_DATA."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path

import pytest
import torch

from rewrites import apply, find_matches
from rewrites.cases import cases, trace_case
from rewrites.taso import TasoError, load_taso, rule_of
from tests.rewrites.building import build, run

FOLDER = Path(os.environ.get("REWRIGHT_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
COLLECTION = FOLDER / "taso_rules.json"
needs_collection = pytest.mark.skipif(
    not COLLECTION.is_file(), reason=f"TASO's rule collection is not at {COLLECTION}; set REWRIGHT_DATA to the folder of taso_rules.json"
)


def entry(source, target, mapped=((0, 0, 0, 0),), number=7):
    def operators(side):
        return [{"type": kind, "inputs": [{"opId": i, "tsId": t} for i, t in inputs], "params": params} for kind, inputs, params in side]

    return {
        "id": number,
        "srcOp": operators(source),
        "dstOp": operators(target),
        "mappedOutput": [dict(zip(("srcOpId", "dstOpId", "srcTsId", "dstTsId"), m, strict=True)) for m in mapped],
    }


RELU = [("OP_RELU", [(-1, 0)], {})]
MATMUL = {"PM_ACTI": "AC_MODE_NONE"}
CONV = {
    "PM_KERNEL_H": 3, "PM_KERNEL_W": 3, "PM_STRIDE_H": 1, "PM_STRIDE_W": 1, "PM_PAD": "PD_MODE_SAME", "PM_ACTI": "AC_MODE_NONE",
}  # fmt: skip


def cat(axis, dims):
    return {"PM_NUM_INPUTS": 2, "PM_AXIS": axis, "PM_NUMDIM": dims}


def shapes(rule):
    return {variable.name: " ".join(map(str, variable.dims)) for variable in rule.signature().tensors}


def test_a_product_gets_its_shapes_and_computes_what_it_says():
    associated = rule_of(
        entry(
            [("OP_MATMUL", [(-1, 0), (-2, 0)], MATMUL), ("OP_MATMUL", [(0, 0), (-3, 0)], MATMUL)],
            [("OP_MATMUL", [(-2, 0), (-3, 0)], MATMUL), ("OP_MATMUL", [(-1, 0), (0, 0)], MATMUL)],
            [(1, 1, 0, 0)],
        )
    )
    assert associated.__name__ == "Taso7"
    assert associated.statement() == "((x1 @ x2) @ x3) is (x1 @ (x2 @ x3))."
    first, second, third = (text.split() for text in shapes(associated).values())
    assert first[1] == second[0] and second[1] == third[0]
    assert len({first[0], first[1], second[1], third[1]}) == 4
    a, b, c = torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 5)
    assert torch.equal(associated.pattern(a, b, c), (a @ b) @ c)
    assert torch.equal(associated.replacement(a, b, c), a @ (b @ c))
    assert "return y1" in inspect.getsource(associated.pattern)


def test_convolutions_share_their_groups_and_the_replacement_divides_channels():
    merged = rule_of(
        entry(
            [
                ("OP_CONV2D", [(-1, 0), (-3, 0)], CONV),
                ("OP_CONV2D", [(-1, 0), (-4, 0)], CONV | {"PM_ACTI": "AC_MODE_RELU"}),
            ],
            [
                ("OP_CONCAT", [(-3, 0), (-4, 0)], cat(0, 4)),
                ("OP_CONV2D", [(-1, 0), (0, 0)], CONV),
                ("OP_SPLIT", [(1, 0)], {"PM_AXIS": 1, "PM_NUM_OUTPUTS": 2}),
            ],
            [(0, 2, 0, 0), (1, 2, 0, 1)],
        )
    )
    assert shapes(merged) == {"x1": "n c*groups h w", "x3": "groups*o c 3 3", "x4": "groups*p c 3 3"}
    x, a, b = torch.randn(2, 6, 5, 4), torch.randn(4, 3, 3, 3), torch.randn(8, 3, 3, 3)
    left = merged.pattern(x, a, b, 2)
    assert [tuple(part.shape) for part in left] == [(2, 4, 5, 4), (2, 8, 5, 4)]
    assert (left[1] >= 0).all() and (left[0] < 0).any()
    right = merged.replacement(x, a, b, 2)
    assert [part.shape for part in right] == [part.shape for part in left]
    assert not torch.allclose(left[0], right[0])


def test_sizes_that_only_the_replacement_needs_equal_are_equal():
    exchanged = rule_of(
        entry(
            [
                ("OP_CONCAT", [(-1, 0), (-3, 0)], cat(1, 2)),
                ("OP_CONCAT", [(-2, 0), (-4, 0)], cat(1, 2)),
                ("OP_EW_ADD", [(0, 0), (1, 0)], {}),
            ],
            [
                ("OP_CONCAT", [(-2, 0), (-3, 0)], cat(1, 2)),
                ("OP_CONCAT", [(-1, 0), (-4, 0)], cat(1, 2)),
                ("OP_EW_ADD", [(0, 0), (1, 0)], {}),
            ],
            [(2, 2, 0, 0)],
        )
    )
    found = shapes(exchanged)
    assert found["x1"] == found["x2"] and found["x3"] == found["x4"] and found["x1"] != found["x3"]


def test_pointwise_rules_hold_at_every_rank():
    commuted = rule_of(entry([("OP_EW_MUL", [(-1, 0), (-2, 0)], {})], [("OP_EW_MUL", [(-2, 0), (-1, 0)], {})]))
    assert shapes(commuted) == {"x1": "*shape", "x2": "*shape"}


def test_what_no_shape_can_say_becomes_a_condition():
    grouped = rule_of(
        entry(
            [
                ("OP_CONV2D", [(-1, 0), (-3, 0)], CONV),
                ("OP_CONV2D", [(-2, 0), (-4, 0)], CONV),
                ("OP_CONCAT", [(0, 0), (1, 0)], cat(1, 4)),
            ],
            [
                ("OP_CONCAT", [(-1, 0), (-2, 0)], cat(1, 4)),
                ("OP_CONCAT", [(-3, 0), (-4, 0)], cat(0, 4)),
                ("OP_CONV2D", [(0, 0), (1, 0)], CONV),
            ],
            [(2, 2, 0, 0)],
        )
    )
    (condition,) = grouped.requires
    assert condition.sentence == "the replacement is well-formed: (o+p) % 2 == 0"
    assert condition.predicate(o=1, p=3) is True
    assert condition.predicate(o=1, p=2) is False


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (entry([("OP_FFT", [(-1, 0)], {})], RELU), "operator OP_FFT is not known"),
        (entry(RELU, [("OP_RELU", [(-2, 0)], {})]), "the replacement uses x2"),
        (entry(RELU, RELU, []), "mappedOutput names no output"),
        (
            entry([("OP_MATMUL", [(-1, 0), (-2, 0)], {"PM_ACTI": "AC_MODE_GELU"})], RELU),
            "AC_MODE_GELU is not known",
        ),
        (
            entry([("OP_CONV2D", [(-1, 0), (-2, 0)], CONV | {"PM_STRIDE_H": 2})], RELU),
            "same padding needs stride 1",
        ),
        (entry([("OP_CONCAT", [(-1, 0), (-2, 0)], {"PM_AXIS": 0})], RELU), "is not of TASO's form"),
        ({"id": 7}, "is not of TASO's form: KeyError: 'srcOp'"),
        (17, "is not of TASO's form"),
    ],
)
def test_what_is_not_of_the_form_is_refused_with_a_sentence(broken, sentence):
    with pytest.raises(TasoError) as caught:
        rule_of(broken, "rules.json")
    assert str(caught.value).startswith("rules.json: Taso")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "sentence"), [("{", "is not JSON"), ("[]", "must be a list of rules"), ("{}", "must be a list of rules")])
def test_a_file_that_is_no_collection_is_refused(tmp_path, text, sentence):
    file = tmp_path / "rules.json"
    file.write_text(text)
    with pytest.raises(TasoError, match=sentence):
        load_taso(file)
    with pytest.raises(TasoError, match="cannot be read"):
        load_taso(tmp_path / "absent.json")


@needs_collection
def test_the_whole_collection_loads_and_traces_in_every_case():
    rules = load_taso(COLLECTION)
    entries = json.loads(COLLECTION.read_text())
    assert [rule.__name__ for rule in rules] == [f"Taso{one['id']}" for one in entries]
    assert len(rules) == 133
    for rule, one in zip(rules, entries, strict=True):
        traced = [trace_case(rule, case) for case in cases(rule)]
        assert traced, rule
        for sides in traced:
            assert len(sides.pattern.outputs) == len(sides.replacement.outputs) == len(one["mappedOutput"])


def instance(rule, generator):
    """Small whole numbers for the rule's tensors: all sizes 3, which every equation between sizes admits, and one group."""
    tensors = {}
    for variable in rule.signature().tensors:
        shape = [3, 3] if variable.stars else [dim if isinstance(dim, int) else 3 for dim in variable.dims]
        tensors[variable.name] = torch.randint(-3, 4, shape, generator=generator).to(torch.float64)
    return tensors, {"groups": 1} if "groups" in rule.signature().names else {}


@needs_collection
def test_every_rule_fires_on_its_own_pattern_and_keeps_the_outputs():
    """Where convolutions are not grouped all rules of the collection hold, so exact arithmetic must give equal outputs."""
    generator = torch.Generator().manual_seed(0)
    for rule in load_taso(COLLECTION):
        inputs, attributes = instance(rule, generator)
        graph = build(lambda rule=rule, attributes=attributes, **tensors: rule.pattern(**tensors, **attributes), inputs)
        found = list(find_matches(rule, graph))
        assert found, rule.statement()
        expected = run(graph, inputs)
        for match in found[:3]:
            for left, right in zip(expected, run(apply(match, graph).graph, inputs), strict=True):
                assert torch.equal(left, right), rule.statement()
