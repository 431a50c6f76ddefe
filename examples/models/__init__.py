"""Models to try things on: blocks written here, and models of `transformers` by configuration, all with random weights."""

from examples.models.blocks import BLOCKS
from examples.models.transformers_models import TRANSFORMERS

MODELS = {**BLOCKS, **TRANSFORMERS}
"""Every factory by name: it gives a module in eval mode and example inputs."""

__all__ = ["BLOCKS", "MODELS", "TRANSFORMERS"]
