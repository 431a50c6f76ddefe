"""Factories of the models written here: each gives a module in eval mode, with random weights, and example inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from examples.models.convolutional import VGG19, InceptionV3, NasNet, SqueezeNet
from examples.models.residual import RepVGG, ResNeXt50, TwoBranchBlock, randomise_statistics
from examples.models.sequence import NasRNN, Transformer

Example = tuple[nn.Module, tuple[Tensor, ...]]


def _images(module: nn.Module, size: int, batch: int = 2) -> Example:
    return randomise_statistics(module.eval()), (torch.randn(batch, 3, size, size),)


def two_branch_block(batch: int = 32, channels: int = 64, size: int = 56) -> Example:
    """The two-branch residual block."""
    torch.manual_seed(0)
    return randomise_statistics(TwoBranchBlock(channels).eval()), (torch.randn(batch, channels, size, size),)


def repvgg() -> Example:
    """RepVGG-A0 in its training form."""
    torch.manual_seed(0)
    return _images(RepVGG(), 224)


def resnext50() -> Example:
    """ResNeXt-50 32x4d."""
    torch.manual_seed(0)
    return _images(ResNeXt50(), 224)


def squeezenet() -> Example:
    """SqueezeNet 1.1."""
    torch.manual_seed(0)
    return _images(SqueezeNet(), 224)


def inception_v3() -> Example:
    """Inception-v3."""
    torch.manual_seed(0)
    return _images(InceptionV3(), 299)


def nasnet() -> Example:
    """Normal cells of NasNet-A."""
    torch.manual_seed(0)
    return _images(NasNet(), 64)


def vgg19() -> Example:
    """VGG-19."""
    torch.manual_seed(0)
    return _images(VGG19(), 224)


def nasrnn() -> Example:
    """NasRNN, hidden size 512, 5 steps."""
    torch.manual_seed(0)
    return NasRNN().eval(), (torch.randn(5, 1, 512), torch.randn(1, 512))


def lora_transformer() -> Example:
    """A transformer whose linear layers carry LoRA adapters."""
    torch.manual_seed(0)
    return Transformer(rank=8).eval(), (torch.randint(0, 1000, (2, 64)),)


def linear_attention_transformer() -> Example:
    """A transformer with linear attention."""
    torch.manual_seed(0)
    return Transformer(linear=True).eval(), (torch.randint(0, 1000, (2, 64)),)


_CONVOLUTIONAL = (two_branch_block, repvgg, resnext50, squeezenet, inception_v3, nasnet, vgg19)
_SEQUENCE = (nasrnn, lora_transformer, linear_attention_transformer)
BLOCKS = {factory.__name__: factory for factory in (*_CONVOLUTIONAL, *_SEQUENCE)}
"""Every factory by name."""
