"""Residual networks: the two-branch block, RepVGG in its training form, ResNeXt-50."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def randomise_statistics(module: nn.Module, seed: int = 0) -> nn.Module:
    """Draw weights, biases and running statistics of every batch norm, which would otherwise be 1 and 0; the module."""
    generator = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            assert part.running_mean is not None and part.running_var is not None
            part.running_mean.copy_(torch.randn(part.num_features, generator=generator) * 0.1)
            part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
            with torch.no_grad():
                part.weight.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
                part.bias.copy_(torch.randn(part.num_features, generator=generator) * 0.1)
    return module


class TwoBranchBlock(nn.Module):
    """relu(bn(conv3x3(x)) + bn(conv1x1(x))).

    x: [n, c, h, w]   ->   [n, c, h, w]
    """

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.conv3 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn3(self.conv3(x)) + self.bn1(self.conv1(x)))


class RepVGGBlock(nn.Module):
    """Ding et al. 2021: a 3x3 and a 1x1 convolution, each with its batch norm, and a batch norm of x itself where shapes allow."""

    def __init__(self, channels: int, out_channels: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv3 = nn.Conv2d(channels, out_channels, 3, stride, 1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.conv1 = nn.Conv2d(channels, out_channels, 1, stride, 0, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.identity = nn.BatchNorm2d(channels) if channels == out_channels and stride == 1 else None

    def forward(self, x: Tensor) -> Tensor:
        result = self.bn3(self.conv3(x)) + self.bn1(self.conv1(x))
        if self.identity is not None:
            result = result + self.identity(x)
        return torch.relu(result)


class RepVGG(nn.Module):
    """RepVGG-A0 in its training form.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(
        self, classes: int = 1000, blocks: tuple[int, ...] = (2, 4, 14, 1), widths: tuple[int, ...] = (48, 48, 96, 192, 1280)
    ) -> None:
        super().__init__()
        stages = [RepVGGBlock(3, widths[0], 2)]
        channels = widths[0]
        for count, width in zip(blocks, widths[1:], strict=True):
            for position in range(count):
                stages.append(RepVGGBlock(channels, width, 2 if position == 0 else 1))
                channels = width
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.stages(x).mean((2, 3)))


class ResNeXtBottleneck(nn.Module):
    """1x1, grouped 3x3, 1x1, with a shortcut; Xie et al. 2017."""

    def __init__(self, channels: int, width: int, out_channels: int, stride: int, groups: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNeXt50(nn.Module):
    """ResNeXt-50 32x4d.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(self, classes: int = 1000, groups: int = 32, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        stages: list[nn.Module] = []
        channels = 64
        for stage, count in enumerate(blocks):
            width, out_channels = groups * 4 * 2**stage, 256 * 2**stage
            for position in range(count):
                stages.append(ResNeXtBottleneck(channels, width, out_channels, 2 if stage and position == 0 else 1, groups))
                channels = out_channels
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.stages(self.stem(x)).mean((2, 3)))
