"""Convolutional networks of several branches: VGG-19, SqueezeNet, Inception-v3, the NasNet-A cell."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class VGG19(nn.Module):
    """Simonyan and Zisserman 2015, configuration E.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(self, classes: int = 1000, hidden: int = 4096) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 49, hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 7).flatten(1))


class Fire(nn.Module):
    """A squeezing 1x1 convolution, then a 1x1 and a 3x3 one side by side."""

    def __init__(self, channels: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.expand1(x)), torch.relu(self.expand3(x))], 1)


class SqueezeNet(nn.Module):
    """Iandola et al. 2016, version 1.1.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2, ceil_mode=True),
            Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x)).flatten(1)


class ConvolutionNormRelu(nn.Sequential):
    """A convolution without bias, a batch norm, relu."""

    def __init__(
        self, channels: int, out_channels: int, kernel: int | tuple[int, int], stride: int = 1, padding: int | tuple[int, int] = 0
    ) -> None:
        super().__init__(
            nn.Conv2d(channels, out_channels, kernel, stride, padding, bias=False), nn.BatchNorm2d(out_channels, eps=0.001), nn.ReLU()
        )


def chain(*steps: tuple[int, int, int | tuple[int, int], int, int | tuple[int, int]]) -> nn.Sequential:
    """Convolutions one after another: (channels, out channels, kernel, stride, padding)."""
    return nn.Sequential(*(ConvolutionNormRelu(*step) for step in steps))


class Branches(nn.Module):
    """Several branches on one input, concatenated over channels; a branch that is a list forks again."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


class AveragePool(nn.AvgPool2d):
    """3x3 average pooling that keeps the size."""

    def __init__(self) -> None:
        super().__init__(3, 1, 1)


def inception_a(c: int, pool: int) -> nn.Module:
    return Branches(
        chain((c, 64, 1, 1, 0)),
        chain((c, 48, 1, 1, 0), (48, 64, 5, 1, 2)),
        chain((c, 64, 1, 1, 0), (64, 96, 3, 1, 1), (96, 96, 3, 1, 1)),
        nn.Sequential(AveragePool(), chain((c, pool, 1, 1, 0))),
    )


def inception_b(c: int) -> nn.Module:
    return Branches(chain((c, 384, 3, 2, 0)), chain((c, 64, 1, 1, 0), (64, 96, 3, 1, 1), (96, 96, 3, 2, 0)), nn.MaxPool2d(3, 2))


def inception_c(c: int, m: int) -> nn.Module:
    row: tuple[int, int] = (1, 7)
    column: tuple[int, int] = (7, 1)
    return Branches(
        chain((c, 192, 1, 1, 0)),
        chain((c, m, 1, 1, 0), (m, m, row, 1, (0, 3)), (m, 192, column, 1, (3, 0))),
        chain((c, m, 1, 1, 0), (m, m, column, 1, (3, 0)), (m, m, row, 1, (0, 3)), (m, m, column, 1, (3, 0)), (m, 192, row, 1, (0, 3))),
        nn.Sequential(AveragePool(), chain((c, 192, 1, 1, 0))),
    )


def inception_d(c: int) -> nn.Module:
    return Branches(
        chain((c, 192, 1, 1, 0), (192, 320, 3, 2, 0)),
        chain((c, 192, 1, 1, 0), (192, 192, (1, 7), 1, (0, 3)), (192, 192, (7, 1), 1, (3, 0)), (192, 192, 3, 2, 0)),
        nn.MaxPool2d(3, 2),
    )


def inception_e(c: int) -> nn.Module:
    def fork(m: int) -> nn.Module:
        return Branches(chain((m, 384, (1, 3), 1, (0, 1))), chain((m, 384, (3, 1), 1, (1, 0))))

    return Branches(
        chain((c, 320, 1, 1, 0)),
        nn.Sequential(chain((c, 384, 1, 1, 0)), fork(384)),
        nn.Sequential(chain((c, 448, 1, 1, 0), (448, 384, 3, 1, 1)), fork(384)),
        nn.Sequential(AveragePool(), chain((c, 192, 1, 1, 0))),
    )


class InceptionV3(nn.Module):
    """Szegedy et al. 2016, without the auxiliary classifier.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            chain((3, 32, 3, 2, 0), (32, 32, 3, 1, 0), (32, 64, 3, 1, 1)), nn.MaxPool2d(3, 2),
            chain((64, 80, 1, 1, 0), (80, 192, 3, 1, 0)), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.mixed = nn.Sequential(
            inception_a(192, 32), inception_a(256, 64), inception_a(288, 64), inception_b(288),
            inception_c(768, 128), inception_c(768, 160), inception_c(768, 160), inception_c(768, 192), inception_d(768),
            inception_e(1280), inception_e(2048),
        )  # fmt: skip
        self.classifier = nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.mixed(self.stem(x)).mean((2, 3)))


class Separable(nn.Sequential):
    """relu, a depthwise and a pointwise convolution, a batch norm: twice, as NasNet has it."""

    def __init__(self, channels: int, kernel: int) -> None:
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [
                nn.ReLU(),
                nn.Conv2d(channels, channels, kernel, 1, kernel // 2, groups=channels, bias=False),
                nn.Conv2d(channels, channels, 1, bias=False),
                nn.BatchNorm2d(channels),
            ]
        super().__init__(*layers)


class NasNetCell(nn.Module):
    """The normal cell of NasNet-A; Zoph et al. 2018, figure 4.

    x, before: [n, c, h, w]   ->   [n, 6*width, h, w]
    """

    def __init__(self, channels: int, channels_before: int, width: int) -> None:
        super().__init__()
        self.fit = nn.Sequential(nn.ReLU(), nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width))
        self.fit_before = nn.Sequential(nn.ReLU(), nn.Conv2d(channels_before, width, 1, bias=False), nn.BatchNorm2d(width))
        self.left = nn.ModuleList([Separable(width, 3), Separable(width, 3), Separable(width, 5)])
        self.right = nn.ModuleList([Separable(width, 5), Separable(width, 3)])

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        h, p = self.fit(x), self.fit_before(before)
        return torch.cat(
            [
                p,
                self.left[0](h) + h,
                self.left[1](p) + self.right[0](h),
                F.avg_pool2d(h, 3, 1, 1) + p,
                F.avg_pool2d(p, 3, 1, 1) + F.avg_pool2d(p, 3, 1, 1),
                self.left[2](p) + self.right[1](p),
            ],
            1,
        )


class NasNet(nn.Module):
    """A stem and a few normal cells of NasNet-A.

    x: [n, 3, h, w]   ->   [n, classes]
    """

    def __init__(self, cells: int = 3, width: int = 44, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 96, 3, 2, 1, bias=False), nn.BatchNorm2d(96))
        channels = [96, 96]
        self.cells = nn.ModuleList()
        for _ in range(cells):
            self.cells.append(NasNetCell(channels[-1], channels[-2], width))
            channels.append(6 * width)
        self.classifier = nn.Linear(channels[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        before = x = self.stem(x)
        for cell in self.cells:
            before, x = x, cell(x, before)
        return self.classifier(torch.relu(x).mean((2, 3)))
