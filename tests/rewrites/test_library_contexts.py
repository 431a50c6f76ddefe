"""Laws of the library in the places they were found in: blocks of real models, rewritten step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from graphs.graph import Graph
from rewrites import Rule, apply
from rewrites.library import attention, convolution, convolution_merging, gates, linear, linear_forms, normalisation, pooling
from tests.rewrites.building import build, draw, matches, operators_of, rewrite_once, run

torch.set_num_threads(1)


def rewritten(graph: Graph, inputs: dict[str, torch.Tensor], *rules: type[Rule]) -> list[str]:
    """The operators after each rule was applied once, each step checked against the graph before."""
    for rule in rules:
        graph = rewrite_once(rule, graph, inputs)
    return operators_of(graph)


def batch_norm(prefix: str, channels: int) -> dict[str, torch.Tensor]:
    drawn = {f"{prefix}_{k}": draw(channels, seed=i) for i, k in enumerate(("mean", "var", "gamma", "beta"))}
    return drawn | {f"{prefix}_var": drawn[f"{prefix}_var"].abs() + 0.5}


def normalised(y: Any, tensors: dict[str, Any], prefix: str) -> Any:
    mean, var, gamma, beta = (tensors[f"{prefix}_{k}"] for k in ("mean", "var", "gamma", "beta"))
    return F.batch_norm(y, mean, var, gamma, beta, False, 0.1, 1e-5)


def on_image(function: Callable[..., Any], constants: dict[str, torch.Tensor], channels: int = 4) -> tuple[Graph, dict[str, torch.Tensor]]:
    inputs = {"x": draw(2, channels, 6, 5)}
    return build(function, inputs, constants), inputs


def test_a_two_branch_residual_block_becomes_one_convolution() -> None:
    def block(x: Any, **c: Any) -> Any:
        left = normalised(F.conv2d(x, c["v"], None, 1, 1), c, "a")
        return F.relu(left + normalised(F.conv2d(x, c["w"]), c, "b"))

    constants = {"v": draw(4, 4, 3, 3), "w": draw(4, 4, 1, 1)} | batch_norm("a", 4) | batch_norm("b", 4)
    graph, inputs = on_image(block, constants)
    fold = convolution.FoldBatchNormIntoConvolution
    graph = rewrite_once(fold, rewrite_once(fold, graph, inputs), inputs)
    assert not matches(convolution_merging.AddConvolutionsOfOneInput, graph), "kernels of 3x3 and 1x1 must not be added"
    small = next(match for match in matches(convolution.EnlargeKernels, graph) if match.dims["kh"] == 1)
    enlarged = apply(small, graph).graph
    assert all(torch.allclose(a, b) for a, b in zip(run(graph, inputs), run(enlarged, inputs), strict=True))
    merged = rewrite_once(convolution_merging.AddConvolutionsOfOneInput, enlarged, inputs)
    assert operators_of(merged).count("Conv2d") == 1
    assert operators_of(merged)[-2:] == ["Conv2d", "Relu"]


def test_asymmetric_branches_enlarge_to_the_square_one() -> None:
    def block(x: Any, u: Any, v: Any, w: Any) -> Any:
        return F.conv2d(x, u, None, 1, 1) + F.conv2d(x, v, None, 1, (0, 1)) + F.conv2d(x, w, None, 1, (1, 0))

    graph, inputs = on_image(block, {"u": draw(4, 4, 3, 3), "v": draw(4, 4, 1, 3), "w": draw(4, 4, 3, 1)})
    for rule, name, axis in ((convolution.EnlargeKernelHeight, "kh", 1), (convolution.EnlargeKernelWidth, "kw", 1)):
        place = next(match for match in matches(rule, graph) if match.dims[name] == axis)
        graph = apply(place, graph).graph
    add = convolution_merging.AddConvolutionsOfOneInput
    assert rewritten(graph, inputs, add, add).count("Conv2d") == 1


def test_an_identity_branch_joins_the_convolution() -> None:
    def block(x: Any, w: Any, b: Any) -> Any:
        return F.conv2d(x, w, b, 1, 1) + x

    graph, inputs = on_image(block, {"w": draw(4, 4, 3, 3), "b": draw(4)})
    assert rewritten(graph, inputs, convolution_merging.IdentityBesideConvolution).count("Conv2d") == 2


def test_a_padded_convolution_keeps_the_shift_before_it() -> None:
    def block(x: Any, shift: Any, w: Any, b: Any) -> Any:
        return F.conv2d(x + shift, w, b, 1, 1)

    graph, _ = on_image(block, {"shift": draw(4, 1, 1), "w": draw(4, 4, 3, 3), "b": draw(4)})
    assert not matches(convolution.FoldInputShiftIntoConvolution, graph)


def test_a_low_rank_update_is_merged() -> None:
    def layer(x: Any, w: Any, b: Any, down: Any, up: Any) -> Any:
        return F.linear(x, w, b) + F.linear(F.linear(x, down), up) * 0.5

    inputs = {"x": draw(2, 3, 5)}
    graph = build(layer, inputs, {"w": draw(7, 5), "b": draw(7), "down": draw(2, 5), "up": draw(7, 2)})
    after = rewrite_once(linear.MergeLowRankUpdate, graph, inputs)
    assert operators_of(after).count("Linear") == 1


def test_attention_as_bert_writes_it_becomes_one_operator() -> None:
    def heads(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(5.0)
        return torch.matmul(torch.softmax(scores + mask, -1), v)

    inputs = {name: draw(2, 3, 4, 5, seed=i) for i, name in enumerate("qkv")} | {"mask": draw(2, 1, 1, 4)}
    graph = build(heads, inputs)
    assert "Attention" in rewritten(graph, inputs, attention.AttentionFromPaddedScores)


def test_repeated_keys_become_grouped_attention() -> None:
    def heads(q: Any, k: Any, v: Any) -> Any:
        def repeated(t: Any) -> Any:
            return t[:, :, None].expand(2, 3, 2, 4, 5).reshape(2, 6, 4, 5)

        return F.scaled_dot_product_attention(q, repeated(k), repeated(v), scale=0.5)

    inputs = {"q": draw(2, 6, 7, 5), "k": draw(2, 3, 4, 5), "v": draw(2, 3, 4, 5, seed=1)}
    rules = (attention.RepeatedKeysAsGroupedAttention, attention.GroupedAttentionAsMoreQueries)
    assert "Expand" not in rewritten(build(heads, inputs), inputs, *rules)


def test_a_root_mean_square_norm_as_llama_writes_it() -> None:
    def norm(x: Any, gamma: Any) -> Any:
        return gamma * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    inputs = {"x": draw(2, 3, 8)}
    assert rewritten(build(norm, inputs, {"gamma": draw(8)}), inputs, normalisation.RmsNormFromParts) == ["RMSNorm"]


def test_a_hardswish_as_exported() -> None:
    def gate(x: Any) -> Any:
        return x * F.relu6(x + 3) / 6

    inputs = {"x": draw(2, 8) * 4}
    assert rewritten(build(gate, inputs), inputs, gates.HardswishFromParts) == ["Hardswish"]


def test_a_gelu_as_gpt2_writes_it() -> None:
    def gate(x: Any) -> Any:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))

    inputs = {"x": draw(2, 8)}
    assert rewritten(build(gate, inputs), inputs, gates.TanhGeluFromParts) == ["Gelu"]


def test_a_transition_layer_pools_before_it_convolves() -> None:
    def transition(x: Any, w: Any, b: Any) -> Any:
        return F.avg_pool2d(F.conv2d(x, w, b), 2, 2)

    graph, inputs = on_image(transition, {"w": draw(3, 4, 1, 1), "b": draw(3)})
    assert rewritten(graph, inputs, pooling.PointwiseConvolutionMovesPastAveragePool)[-2:] == ["AvgPool2d", "Conv2d"]


def test_a_biased_product_as_onnx_writes_it() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return torch.matmul(x, w) + b

    inputs = {"x": draw(2, 3, 5)}
    assert rewritten(build(layer, inputs, {"w": draw(5, 7), "b": draw(7)}), inputs, linear_forms.BiasedMatMulAsLinear)[-1] == "Linear"
