"""RepVGG's training form, strided blocks included, becomes its deployed form: one 3x3 convolution and one relu a block."""

from __future__ import annotations

from collections import Counter

import torch

from examples.models.residual import RepVGG, randomise_statistics
from graphs.capture import capture
from operators.sources import Constant
from rewrites import Rule
from rewrites.library import library
from search import search

NAMES = {
    "FoldBatchNormIntoConvolution", "EnlargeKernels", "EnlargeKernelHeight", "EnlargeKernelWidth", "AddConvolutionsOfOneInput",
    "AdditionAssociates", "BatchNormIntoConvolutionBesideIt", "StridedPointwiseConvolutionAsSlice", "GroupedConvolutionAsDense",
}  # fmt: skip


def certified(rule: type[Rule]) -> str:
    return f"test:{rule.__name__}"


def test_training_form_becomes_deployed_form() -> None:
    blocks, widths, classes = (1, 2), (8, 8, 12), 10
    torch.manual_seed(0)
    model = randomise_statistics(RepVGG(classes, blocks, widths).eval())
    graph = capture(model, (torch.randn(2, 3, 32, 32),))
    rules = [rule for rule in library() if rule.__name__ in NAMES]
    found = search(graph, rules, certified, expansions=60)
    kinds = Counter(type(found.graph.operator(node)).__name__ for node in found.graph.network)
    count = 1 + sum(blocks)
    assert (kinds["Conv2d"], kinds["Relu"], kinds["Add"], kinds["BatchNorm"]) == (count, count, 0, 0)
    assert found.after.kernels == 2 * count + 2, "and the mean and the classifier"
    shapes = [(3, 8), (8, 8), (8, 12), (12, 12)]
    deployed = sum(9 * inside * outside + outside for inside, outside in shapes) + 12 * classes + classes
    result = found.graph
    read = [result.operator(node) for node in result.network if result.network.out_degree(node)]
    assert sum(result.constants[operator.name].numel() for operator in read if isinstance(operator, Constant)) == deployed
    assert found.max_error["float64"] <= 1e-10
