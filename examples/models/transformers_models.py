"""Factories of models from `transformers`, by configuration with random weights: nothing is downloaded.

Each gives a module in eval mode and example inputs by name. Sizes are the published ones unless the docstring says small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from examples.models.residual import randomise_statistics

Example = tuple[nn.Module, dict[str, Tensor]]


def _ready(module: nn.Module) -> nn.Module:
    return randomise_statistics(module.eval())


def _pixels(size: int, batch: int = 2) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def _tokens(vocabulary: int, length: int = 32, batch: int = 2, mask: bool = True) -> dict[str, Tensor]:
    inputs = {"input_ids": torch.randint(0, vocabulary, (batch, length))}
    return {**inputs, "attention_mask": torch.ones(batch, length, dtype=torch.int64)} if mask else inputs


def resnet50() -> Example:
    """ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return _ready(ResNetForImageClassification(ResNetConfig(num_labels=1000))), _pixels(224)


def mobilenet_v2() -> Example:
    """MobileNetV2."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return _ready(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000))), _pixels(224)


def efficientnet_b0() -> Example:
    """EfficientNet-B0."""
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280, num_labels=1000)
    return _ready(EfficientNetForImageClassification(config)), _pixels(224)


def convnext_tiny() -> Example:
    """ConvNeXt-tiny."""
    from transformers import ConvNextConfig, ConvNextForImageClassification

    return _ready(ConvNextForImageClassification(ConvNextConfig(num_labels=1000))), _pixels(224)


def regnet() -> Example:
    """RegNetY-400MF."""
    from transformers import RegNetConfig, RegNetForImageClassification

    config = RegNetConfig(hidden_sizes=[48, 104, 208, 440], depths=[1, 3, 6, 6], groups_width=8, layer_type="y", num_labels=1000)
    return _ready(RegNetForImageClassification(config)), _pixels(224)


def vit() -> Example:
    """ViT-base, patches of 16."""
    from transformers import ViTConfig, ViTForImageClassification

    return _ready(ViTForImageClassification(ViTConfig(num_labels=1000))), _pixels(224)


def swin_tiny() -> Example:
    """Swin-tiny."""
    from transformers import SwinConfig, SwinForImageClassification

    return _ready(SwinForImageClassification(SwinConfig(num_labels=1000))), _pixels(224)


def bert_base() -> Example:
    """BERT-base."""
    from transformers import BertConfig, BertModel

    return _ready(BertModel(BertConfig())), _tokens(30522)


def distilbert() -> Example:
    """DistilBERT."""
    from transformers import DistilBertConfig, DistilBertModel

    return _ready(DistilBertModel(DistilBertConfig())), _tokens(30522)


def gpt2() -> Example:
    """GPT-2 (124 million parameters), without a cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return _ready(GPT2LMHeadModel(GPT2Config(use_cache=False))), _tokens(50257)


def llama() -> Example:
    """A small Llama: 4 layers, grouped-query attention."""
    return llama_of(layers=4)


def llama_of(layers: int) -> Example:
    """A small Llama of so many layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        use_cache=False,
    )
    return _ready(LlamaForCausalLM(config)), _tokens(1000)


def t5_small() -> Example:
    """T5-small."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, use_cache=False, decoder_start_token_id=0)
    return _ready(T5ForConditionalGeneration(config)), {**_tokens(32128), "decoder_input_ids": torch.randint(0, 32128, (2, 16))}


def whisper_tiny() -> Example:
    """Whisper-tiny."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536,
        decoder_ffn_dim=1536, use_cache=False,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 80, 3000), "decoder_input_ids": torch.randint(0, 51865, (2, 16))}
    return _ready(WhisperForConditionalGeneration(config)), inputs


def clip() -> Example:
    """CLIP ViT-B/32, both towers."""
    from transformers import CLIPConfig, CLIPModel

    return _ready(CLIPModel(CLIPConfig())), {**_tokens(49408, 16), **_pixels(224)}


def detr_r50() -> Example:
    """DETR with a ResNet-50 backbone."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(out_features=["stage4"])
    config = DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone)
    return _ready(DetrForObjectDetection(config)), {**_pixels(224), "pixel_mask": torch.ones(2, 224, 224, dtype=torch.int64)}


def segformer_b0() -> Example:
    """SegFormer-B0."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    return _ready(SegformerForSemanticSegmentation(SegformerConfig(num_labels=150))), _pixels(224)


def mamba() -> Example:
    """A small Mamba: 4 layers."""
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(vocab_size=1000, hidden_size=256, num_hidden_layers=4, use_cache=False)
    return _ready(MambaForCausalLM(config)), _tokens(1000, 16, mask=False)


def mixtral() -> Example:
    """A small Mixtral: 2 layers of 4 experts."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        num_local_experts=4, num_experts_per_tok=2, use_cache=False,
    )  # fmt: skip
    return _ready(MixtralForCausalLM(config)), _tokens(1000, 16)


def _seeded(factory: Callable[[], Example]) -> Callable[[], Any]:
    def build() -> Example:
        torch.manual_seed(0)
        return factory()

    return build


_IMAGES = (resnet50, mobilenet_v2, efficientnet_b0, convnext_tiny, regnet, vit, swin_tiny, detr_r50, segformer_b0, clip)
_SEQUENCES = (bert_base, distilbert, gpt2, llama, t5_small, whisper_tiny, mamba, mixtral)
TRANSFORMERS = {factory.__name__: _seeded(factory) for factory in (*_IMAGES, *_SEQUENCES)}
"""Every factory by name, with its seed set."""
