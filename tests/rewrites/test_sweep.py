"""The whole library over two small models: wherever a rule fires, the model computes what it did before, in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphs.capture import capture
from graphs.evaluate import evaluate
from rewrites import apply_in_place, explain, find_all, reverse
from rewrites.library import library


class Convolutional(nn.Module):
    """Branches that add up, strided grouped and depthwise convolutions, pooling, a classifier, a second output."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(4, 6, 3, padding=1, bias=False), nn.Conv2d(4, 6, 1)
        self.first, self.second = nn.BatchNorm2d(6), nn.BatchNorm2d(6)
        self.grouped, self.depthwise = nn.Conv2d(6, 8, 3, 2, 1, groups=2), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise, self.classify = nn.Conv2d(8, 5, 1), nn.Linear(5, 3)
        for norm in (self.first, self.second):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        y = F.relu(self.first(self.wide(x)) + self.second(self.narrow(x)))
        z = self.pointwise(F.silu(self.depthwise(F.relu(self.grouped(y)))))
        z = F.max_pool2d(F.relu(F.avg_pool2d(z, 2)), 2).mean((2, 3))
        return torch.softmax(self.classify(z * 0.5 + 1.0) + 3.0, -1), y.clamp(0, 1)


class Attentive(nn.Module):
    """One transformer layer with shared norms, a low-rank bypass and a concatenation."""

    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.low, self.high = nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x):
        samples, length, width = x.shape
        y = self.norm(x)
        q, k, v = (
            part(y).view(samples, length, self.heads, width // self.heads).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2.0, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(samples, length, width)) + self.high(self.low(x))
        return x + self.down(F.gelu(self.up(self.norm(x)))), torch.cat([x, torch.relu(x)], -1).transpose(1, 2)


@pytest.mark.parametrize(("model", "shape"), [(Convolutional, (2, 4, 17, 16)), (Attentive, (2, 5, 12))])
def test_wherever_a_rule_fires_the_outputs_stay(model, shape):
    torch.manual_seed(0)
    module, inputs = model().eval(), torch.randn(shape)
    graph = capture(module, (inputs,))
    expected = evaluate(graph, [inputs.double()], float64=True)
    rules = library()
    rules += [reverse(rule) for rule in rules if rule.bidirectional]
    matches = list(find_all(rules, graph))
    assert len({match.rule for match in matches}) >= 15
    for match in matches:
        applied = apply_in_place(match, graph)
        graph.validate()
        for before, after in zip(expected, evaluate(graph, [inputs.double()], float64=True), strict=True):
            torch.testing.assert_close(before, after, rtol=1e-10, atol=1e-10, msg=lambda said, match=match: f"{match}: {said}")
        applied.undo()


def test_every_rule_says_why_it_does_not_apply():
    graph = capture(Convolutional().eval(), (torch.randn(2, 4, 17, 16),))
    matched = {match.rule for match in find_all(library(), graph)}
    for rule in library():
        misses = explain(rule, graph)
        assert misses or rule in matched, rule
        assert all(miss.reason and "\n" not in miss.reason for miss in misses)
