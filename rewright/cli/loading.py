"""Models from the command line: loaded, captured, and refused in one sentence."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rewright.cli.console import bad_input

if TYPE_CHECKING:
    from graphs.graph import Graph
    from graphs.load import Loaded


@contextmanager
def refusing_models() -> Iterator[None]:
    """What a model cannot do is the input's fault, said in one sentence."""
    from graphs.capture import CaptureError
    from graphs.load import LoadError

    # What torch.export warns of on its way to a refusal is in the one sentence of the refusal.
    logging.disable(logging.WARNING)
    with bad_input(LoadError, CaptureError):
        yield


def loaded(model: str) -> Loaded:
    """The module that a MODEL argument names.

    Raises: BadInput.
    """
    from graphs.load import load_model

    with refusing_models():
        return load_model(model)


def captured(model: str) -> tuple[Graph, dict[str, int]]:
    """The graph of the model that a MODEL argument names, and the numbers of its symbolic sizes.

    Raises: BadInput.
    """
    from graphs.interface import interface_of

    with refusing_models():
        graph = loaded(model).capture()
    return graph, {symbol.name: size for symbol, size in interface_of(graph).hints.items()}
