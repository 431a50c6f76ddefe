"""Loading what a MODEL argument names: `file.py:factory`, `package.module:factory`, a `.pt2` or an `.onnx` file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from graphs.capture import capture, from_exported_program, reason_of
from graphs.graph import Graph

FORMS = "file.py:factory, package.module:factory, a .pt2 or an .onnx file"


class LoadError(ValueError):
    """A MODEL argument that names no model; the message says which part of it is wrong, and where."""


@dataclass(frozen=True)
class Loaded:
    """A module with the inputs to capture it on: a tuple, or a mapping of named ones. An ONNX model is a graph from the start."""

    name: str
    module: torch.nn.Module | None
    example_inputs: Any
    program: torch.export.ExportedProgram | None = None
    graph: Graph | None = None

    def capture(self, dynamic_shapes: Any = None) -> Graph:
        """The module's graph; a `.pt2` keeps the dynamic sizes it was exported with, an `.onnx` those it declares.

        Raises: CaptureError when torch.export refuses the module.
        """
        if self.graph is not None:
            return self.graph
        assert self.module is not None
        if self.program is not None and dynamic_shapes is None:
            return from_exported_program(self.program)
        return capture(self.module, self.example_inputs, dynamic_shapes)


def load_model(name: str) -> Loaded:
    """The module that a MODEL argument names. A factory is the user's code and runs as the user, under torch's seed 0.

    The seed makes random weights the same whenever the model is loaded, so that what was optimised can be compared with it.
    Raises: LoadError, one sentence that says what is wrong and where.
    """
    if name.endswith(".pt2"):
        return _exported(name)
    if name.endswith(".onnx"):
        return _onnx(name)
    place, colon, factory = name.rpartition(":")
    if not colon or not place or not factory:
        raise LoadError(f"MODEL must be {FORMS}, got {name!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = _file(place) if place.endswith(".py") else _package(place)
        found: Any = module
        for part in factory.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise LoadError(f"{place}: has no {factory}; it has {_names(module)}")
        return _made(name, found)


def _made(name: str, factory: Any) -> Loaded:
    if isinstance(factory, torch.nn.Module):
        made: Any = factory
    elif callable(factory):
        try:
            made = factory()
        except Exception as error:
            raise LoadError(f"{name}: the factory raises {reason_of(error)}") from error
    else:
        raise LoadError(f"{name}: must be a callable that returns an nn.Module, got {type(factory).__name__}")
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        got = type(made).__name__ if module is made else f"a pair of {type(module).__name__} and {type(inputs).__name__}"
        raise LoadError(f"{name}: must return an nn.Module, or a pair of it and its example inputs, got {got}")
    if inputs is None:
        inputs = getattr(module, "example_inputs", None)
    if inputs is None:
        raise LoadError(f"{name}: gives no example inputs; return a pair of the module and a tuple of them")
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list, Mapping)):
        raise LoadError(f"{name}: example inputs must be a tuple of tensors or a dict of named ones, got {type(inputs).__name__}")
    return Loaded(name, module, inputs)


def _names(module: ModuleType) -> str:
    own = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    own = [key for key in own if getattr(getattr(module, key), "__module__", module.__name__) == module.__name__]
    return ", ".join(own[:8]) + (", …" if len(own) > 8 else "") if own else "no callable at all"


def _file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise LoadError(f"{place}: no such file")
    for folder in (str(Path.cwd()), str(path.resolve().parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    name = f"_model_{path.stem}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise LoadError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise LoadError(f"{place}: importing it raises {reason_of(error)}") from error
    return module


def _package(place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise LoadError(f"{place}: no module of that name (looked beside the installed packages in {here})") from error
        raise LoadError(f"{place}: importing it raises {reason_of(error)}") from error
    except SyntaxError as error:
        raise LoadError(f"{error.filename}:{error.lineno}: {error.msg}") from error
    except Exception as error:
        raise LoadError(f"{place}: importing it raises {reason_of(error)}") from error


def _exported(name: str) -> Loaded:
    path = Path(name)
    if not path.is_file():
        raise LoadError(f"{name}: no such file")
    if not zipfile.is_zipfile(path):
        raise LoadError(f"{name}: no exported program: the file is not a zip archive, or is cut short")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(path)
    except Exception as error:
        lines = traceback.format_exception_only(error)[-1].strip().splitlines()
        raise LoadError(f"{name}: no exported program that this torch can read: {lines[0]}") from error
    if program.example_inputs is None:
        raise LoadError(f"{name}: holds no example inputs; export it again with this torch")
    arguments, named = program.example_inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = program.module()
    return Loaded(name, module, (tuple(arguments), dict(named)) if named else tuple(arguments), program)


def _onnx(name: str) -> Loaded:
    try:
        from graphs.onnx import OnnxError, load
    except ModuleNotFoundError as error:
        raise LoadError(f"{name}: ONNX files need the onnx package: pip install 'rewright[onnx]'") from error
    try:
        return Loaded(name, None, None, graph=load(name))
    except ModuleNotFoundError as error:
        raise LoadError(f"{name}: ONNX files need the onnx package: pip install 'rewright[onnx]'") from error
    except OnnxError as error:
        raise LoadError(str(error) if name in str(error) else f"{name}: {error}") from error


__all__ = ["FORMS", "LoadError", "Loaded", "load_model"]
