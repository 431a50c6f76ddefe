"""Laws that never make a graph worse, applied throughout before any search."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from costs.devices import PROCESSOR
from costs.roofline import Roofline
from graphs.evaluate import evaluate
from graphs.graph import Graph
from graphs.trace import Proxy, trace
from operators.operator import TensorType
from rewrites.library import library
from rewrites.rule import Rule
from search.certified import Waited, admit
from search.settling import Settled, literals, settle


def graph_of(function, constants, shape, dtype="float32"):
    """The graph of a function of one input and constants by name."""
    graph = Graph()
    x = Proxy(graph, graph.input("x", TensorType(shape, dtype)))
    weights = {name: Proxy(graph, graph.constant(name, tensor)) for name, tensor in constants.items()}
    graph.outputs = trace(lambda: function(x, **weights), [], graph)
    return graph


def rules(certificate=lambda rule: "evidence"):
    admitted, refused = admit([rule for rule in library() if rule.settles or rule.tried], certificate, Waited())
    assert not refused
    return admitted


def kinds(graph):
    return sorted(type(graph.operator(node)).__name__ for node in graph.network)


def drawn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CONVOLUTION = {"weight": drawn(6, 3, 3, 3), "bias": drawn(6), "scale": drawn(6, 1, 1), "shift": drawn(6, 1, 1)}


def written_out(x, weight, bias, scale, shift):
    """A convolution, a batch norm in pieces, and a hard-swish in pieces."""
    y = (F.conv2d(x, weight, bias, padding=1) - shift) * scale + shift
    return y * torch.clamp(y + 3, 0.0, 6.0) / 6


def test_pieces_become_a_convolution_and_its_activation():
    graph = graph_of(written_out, CONVOLUTION, (2, 3, 5, 7))
    x = drawn(2, 3, 5, 7)
    expected = evaluate(graph, [x], float64=True)[0]
    settled = settle(graph, rules())
    graph.remove_dead()
    assert settled.complete
    assert {rule for rule, _, _ in settled.steps} == {
        "ConvolutionLessShift", "FoldOutputScaleIntoConvolution", "FoldOutputShiftIntoConvolution", "HardswishFromClamp"
    }  # fmt: skip
    assert kinds(graph).count("Conv2d") == 1
    assert kinds(graph).count("Hardswish") == 1
    torch.testing.assert_close(evaluate(graph, [x], float64=True)[0], expected, rtol=1e-12, atol=1e-12)


def island(x, weight, bias, scale, shift):
    """The same with the channels last between two permutations, padded there, beside what skips it."""
    y = F.conv2d(x, weight, bias, padding=1).permute(0, 2, 3, 1)
    y = torch.relu(y * scale[:, 0, 0] + shift[:, 0, 0])
    return F.pad(y, (0, 0, 1, 1, 1, 1)).permute(0, 3, 1, 2)


def test_channels_last_islands_close():
    graph = graph_of(island, CONVOLUTION, (2, 3, 5, 7))
    x = drawn(2, 3, 5, 7)
    expected = evaluate(graph, [x], float64=True)[0]
    settle(graph, rules())
    graph.remove_dead()
    running = [kind for kind in kinds(graph) if kind in ("Permute", "Conv2d", "Relu", "Pad", "Add", "Multiply")]
    assert running.count("Conv2d") == 1
    assert "Permute" not in running
    torch.testing.assert_close(evaluate(graph, [x], float64=True)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_shift_stays_before_a_padded_convolution():
    graph = graph_of(lambda x, weight, bias, **_: F.conv2d(x + 3, weight, bias, padding=1), CONVOLUTION, (2, 3, 5, 7))
    assert not settle(graph, rules()).steps


def test_what_is_read_elsewhere_is_not_computed_twice():
    def both(x, weight, bias, **_):
        y = F.conv2d(x, weight, bias)
        return y * 2, y

    graph = graph_of(both, CONVOLUTION, (2, 3, 5, 7))
    assert not settle(graph, rules()).steps


def test_a_rule_without_a_certificate_is_left_out():
    graph = graph_of(written_out, CONVOLUTION, (2, 3, 5, 7))
    settled = settle(graph, rules(lambda rule: None if rule.__name__ == "HardswishFromClamp" else "evidence"))
    assert "HardswishFromClamp" in settled.refused
    assert "Hardswish" not in kinds(graph)
    assert kinds(graph).count("Conv2d") == 1


def test_rules_are_left_out_or_tried_when_asked():
    def affine(x, weight, bias, scale, shift):
        return F.conv2d(torch.relu(x) * 2 + 1, weight, bias, padding=1)

    by_name: dict[str, type[Rule]] = {entry.rule.__name__: entry.rule for entry in rules()}
    omitted = graph_of(written_out, CONVOLUTION, (2, 3, 5, 7))
    settle(omitted, rules(), omitted=[by_name["HardswishFromClamp"]])
    assert "Hardswish" not in kinds(omitted)
    untried = graph_of(affine, CONVOLUTION, (2, 3, 5, 7))
    assert not settle(untried, rules()).steps
    rounds: list[int] = []
    tried = graph_of(affine, CONVOLUTION, (2, 3, 5, 7))

    def note(graph: Graph, settled: Settled) -> None:
        rounds.append(len(settled.steps))

    settle(tried, rules(), tried=[by_name["ScalarScaleAndShiftAsBatchNorm"]], after_round=note)
    assert "BatchNorm" in kinds(tried)
    assert rounds == [1]


def test_no_time_left_ends_it():
    graph = graph_of(written_out, CONVOLUTION, (2, 3, 5, 7))
    settled = settle(graph, rules(), out_of_time=lambda: True)
    assert not settled.steps
    assert not settled.complete


def test_literals_are_the_patterns_numbers():
    assert 0.5**0.5 in literals(rules())
    assert 6.0 not in literals(rules())


@pytest.mark.parametrize("channels", [1, 64])  # bound by memory, and by arithmetic
def test_a_stride_moves_up_to_what_reads_neighbours(channels):
    """Two 1x1 convolutions that read every second position of a residual block: the block computes no others."""

    def block(x, weight, expand, skip, reduce):
        y = F.conv2d(torch.relu(F.conv2d(x, weight, padding=1)), expand)
        z = torch.relu(y + F.conv2d(x, skip))
        return F.conv2d(z, skip.transpose(0, 1), stride=2) + F.conv2d(z, reduce, stride=2)

    constants = {"weight": drawn(3, 4, 3, 3), "expand": drawn(6, 3, 1, 1), "skip": drawn(6, 4, 1, 1), "reduce": drawn(4, 6, 1, 1)}
    constants = {name: tensor.repeat(channels, channels, 1, 1) for name, tensor in constants.items()}
    graph = graph_of(block, constants, (2, 4 * channels, 9, 6))
    x = drawn(2, 4 * channels, 9, 6)
    expected = evaluate(graph, [x], float64=True)[0]
    chosen = rules()
    assert not settle(graph, chosen).steps
    for name in ("StridedPointwiseConvolutionAsSlice", "PointwiseConvolutionOfSubsample"):
        tried = [entry.rule for entry in chosen if entry.rule.__name__ == name]
        assert settle(graph, chosen, tried=tried, roofline=Roofline(PROCESSOR, "copies")).complete
    graph.remove_dead()
    assert kinds(graph).count("Slice") == 0
    sizes = {graph.types(node)[0].shape[2:] for node in graph.network if type(graph.operator(node)).__name__ in ("Conv2d", "Relu", "Add")}
    assert sizes == {(5, 3)}
    torch.testing.assert_close(evaluate(graph, [x], float64=True)[0], expected, rtol=1e-12, atol=1e-12)


def test_a_stride_stays_where_every_position_is_read():
    def block(x, weight, reduce):
        y = torch.relu(F.conv2d(x, weight, padding=1))
        return F.conv2d(y, reduce, stride=2), y

    graph = graph_of(block, {"weight": drawn(4, 4, 3, 3), "reduce": drawn(5, 4, 1, 1)}, (2, 4, 8, 8))
    chosen = rules()
    strided = next(entry.rule for entry in chosen if entry.rule.__name__ == "StridedPointwiseConvolutionAsSlice")
    settle(graph, chosen, tried=(strided,), roofline=Roofline(PROCESSOR, "copies"))
    assert {graph.types(node)[0].shape[2:] for node in graph.network if type(graph.operator(node)).__name__ == "Relu"} == {(8, 8)}
