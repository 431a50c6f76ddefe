"""ONNX files: opened with distrust, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, checker, external_data_helper, inliner, version_converter

from graphs.onnx.errors import MOST_ELEMENTS, OnnxError, shortened
from graphs.onnx.subgraphs import all_graphs, captured_names

OLDEST, MOST_BYTES = 7, 2**31 - 1
LARGE = 1 << 10
"""Weights of fewer bytes stay inside a model whose others lie beside it."""


def open_model(path: str | PathLike[str]) -> onnx.ModelProto:
    """The model of a file, with its external data.

    Raises: OnnxError, OSError as one sentence that names the file.
    """
    place = Path(path)
    if not place.is_file():
        raise OnnxError(f"{place}: no such file")
    try:
        model = onnx.ModelProto()
        model.ParseFromString(place.read_bytes())
    except (DecodeError, RuntimeError, ValueError) as error:
        raise OnnxError(f"{place}: no ONNX model: the file is cut short, or something else") from error
    except OSError as error:
        raise OnnxError(f"{place}: cannot be read: {error.strerror}") from error
    if not model.HasField("graph"):
        raise OnnxError(f"{place}: no ONNX model: it holds no graph")
    try:
        _load_external(model, place.resolve().parent)
        check(model)
    except OnnxError as error:
        raise OnnxError(f"{place}: {error}") from error
    return model


def all_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the model holds."""
    for graph in all_graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _load_external(model: onnx.ModelProto, folder: Path) -> None:
    for tensor in all_tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        target = folder / location
        inside = location and not os.path.isabs(location) and ".." not in Path(location).parts
        if not inside or not target.resolve().is_relative_to(folder):
            raise OnnxError(
                f"tensor {shortened(tensor.name)!r}: external data must lie in the model's own folder, got {shortened(location)!r}"
            )
        if not target.is_file():
            raise OnnxError(f"tensor {shortened(tensor.name)!r}: its external data {shortened(location)!r} is not there")
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
        except (ValueError, OSError, checker.ValidationError) as error:
            raise OnnxError(f"tensor {shortened(tensor.name)!r}: its external data cannot be read: {shortened(error)}") from error
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def check(model: onnx.ModelProto) -> None:
    """What every reader relies on.

    Raises: OnnxError.
    """
    opsets = {opset.domain if opset.domain != "ai.onnx" else "": opset.version for opset in model.opset_import}
    newest = onnx.defs.onnx_opset_version()
    version = opsets.get("", 0 if not opsets else None)
    if version is not None and (version > newest or (version < OLDEST and _changed_since(model, version))):
        raise OnnxError(f"opset must be between {OLDEST} and {newest}, got {version}")
    for tensor in all_tensors(model):
        _check_tensor(tensor)
    names: set[str] = set()
    for info in model.graph.input:
        if info.name in names:
            raise OnnxError(f"input {shortened(info.name)!r} is declared twice")
        names.add(info.name)
    initialised: set[str] = set()
    for name in [tensor.name for tensor in model.graph.initializer] + [sparse.values.name for sparse in model.graph.sparse_initializer]:
        if name in initialised:
            raise OnnxError(f"initialiser {shortened(name)!r} is there twice")
        if not name:
            raise OnnxError("an initialiser has no name")
        initialised.add(name)
    for info in model.graph.input:
        _check_sizes(info)
    if not model.graph.output:
        raise OnnxError("the graph has no outputs")


def _changed_since(model: onnx.ModelProto, version: int) -> bool:
    """An operator of the model meant something else, or nothing, before the oldest opset that is read."""
    if version < 1:
        return True
    for graph in all_graphs(model.graph):
        for node in graph.node:
            if node.domain in ("", "ai.onnx"):
                try:
                    if (
                        onnx.defs.get_schema(node.op_type, version).since_version
                        != onnx.defs.get_schema(node.op_type, OLDEST).since_version
                    ):
                        return True
                except onnx.defs.SchemaError:
                    return True
    return False


def _check_tensor(tensor: TensorProto) -> None:
    name = shortened(tensor.name)
    total = 1
    for dim in tensor.dims:
        if dim < 0:
            raise OnnxError(f"tensor {name!r}: sizes must not be negative, got {list(tensor.dims)[:8]}")
        total *= dim
    if total > MOST_ELEMENTS:
        raise OnnxError(f"tensor {name!r}: must have at most {MOST_ELEMENTS} elements, got {list(tensor.dims)[:8]}")
    try:
        checker.check_tensor(tensor)
        if total and tensor.data_type != TensorProto.STRING:
            held = onnx.numpy_helper.to_array(tensor).size
            if held != total:
                raise OnnxError(f"tensor {name!r}: must hold {total} elements, got {held}")
    except (checker.ValidationError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, OnnxError):
            raise
        raise OnnxError(f"tensor {name!r} is broken: {shortened(error)}") from error


def _check_sizes(info: onnx.ValueInfoProto) -> None:
    total = 1
    for dim in info.type.tensor_type.shape.dim:
        total *= max(dim.dim_value, 1)
    if total > MOST_ELEMENTS:
        raise OnnxError(f"input {shortened(info.name)!r}: must have at most {MOST_ELEMENTS} elements, got {total}")


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its functions inlined and its nodes in an order in which each comes after what it reads.

    Raises: OnnxError for a cycle, a name that two nodes compute, or one that none does.
    """
    check(model)
    if model.functions:
        _check_functions(model)
        try:
            model = inliner.inline_local_functions(model)
        except (RuntimeError, ValueError, checker.ValidationError) as error:
            raise OnnxError(f"functions cannot be inlined: {shortened(error)}") from error
    order = order_of(model.graph)
    if order != list(range(len(order))):
        nodes = [model.graph.node[number] for number in order]
        copied = onnx.ModelProto()
        copied.CopyFrom(model)
        del copied.graph.node[:]
        copied.graph.node.extend(nodes)
        model = copied
    return model


def converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model in another opset, by the converter of the `onnx` package.

    Raises: OnnxError when it cannot be converted.
    """
    check(model)
    try:
        return version_converter.convert_version(model, opset)
    except (RuntimeError, ValueError) as error:
        raise OnnxError(f"cannot be converted to opset {opset}: {shortened(error)}") from error


def _check_functions(model: onnx.ModelProto) -> None:
    """No function calls itself, directly or through others: inlining would never end."""
    calls = {(one.domain, one.name): {(node.domain, node.op_type) for node in one.node} for one in model.functions}
    done: set[tuple[str, str]] = set()
    for start in calls:
        path, pending = [start], [iter(calls[start])]
        while pending:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                done.add(path.pop())
            elif step in path:
                raise OnnxError(f"function {shortened(step[1])!r} calls itself")
            elif step in calls and step not in done:
                path.append(step)
                pending.append(iter(calls[step]))


def order_of(graph: onnx.GraphProto) -> list[int]:
    """The nodes, each after what it reads; as they stand where that is so."""
    sources = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    sources |= {sparse.values.name for sparse in graph.sparse_initializer}
    producer: dict[str, int] = {}
    for number, node in enumerate(graph.node):
        for name in node.output:
            if name in producer or (name and name in sources):
                raise OnnxError(f"{shortened(name)!r} is computed twice, or is an input too")
            if name:
                producer[name] = number
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for number, node in enumerate(graph.node):
        needs: set[int] = set()
        for name in (*node.input, *captured_names(node)):
            if not name or name in sources:
                continue
            if name not in producer:
                raise OnnxError(f"node {number} ({shortened(node.op_type, 60)}) reads {shortened(name)!r}, which nothing computes")
            needs.add(producer[name])
        waiting[number] = len(needs)
        for one in needs:
            readers.setdefault(one, []).append(number)
    for output in graph.output:
        if output.name not in producer and output.name not in sources:
            raise OnnxError(f"output {shortened(output.name)!r}: nothing computes it")
    return _sorted(graph, waiting, readers)


def _sorted(graph: onnx.GraphProto, waiting: dict[int, int], readers: dict[int, list[int]]) -> list[int]:
    import heapq

    ready = [number for number, count in waiting.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers.get(number, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) != len(waiting):
        stuck = next(number for number, count in waiting.items() if count)
        raise OnnxError(f"node {stuck} ({shortened(graph.node[stuck].op_type, 60)}) lies on a cycle, or behind one")
    return order


def write_model(model: onnx.ModelProto, path: str | PathLike[str]) -> None:
    """Write a model that the checker accepts, beside its place, and rename it there; weights of more than 2 GB go into a file beside it.

    Raises: OnnxError, OSError.
    """
    target = Path(path)
    beside = target.absolute().parent
    handle, name = tempfile.mkstemp(dir=beside, prefix=f".{target.name}.", suffix=".onnx")
    os.close(handle)
    temporary, weights = Path(name), Path(f"{name}.data")
    try:
        if model.ByteSize() > MOST_BYTES:
            kept = onnx.ModelProto()
            kept.CopyFrom(model)
            _put_apart(kept, weights, f"{target.name}.data")
            temporary.write_bytes(kept.SerializeToString())
            os.replace(weights, beside / f"{target.name}.data")
        else:
            check_model(model)
            temporary.write_bytes(model.SerializeToString())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
        if model.ByteSize() > MOST_BYTES:
            check_model(str(target))
    finally:
        temporary.unlink(missing_ok=True)
        weights.unlink(missing_ok=True)


def _put_apart(model: onnx.ModelProto, place: Path, name: str) -> None:
    """Write the model's weights into a file, and let the model say where they are."""
    with place.open("wb") as file:
        for tensor in model.graph.initializer:
            content = onnx.numpy_helper.to_array(tensor)
            if content.nbytes < LARGE or tensor.data_type == TensorProto.STRING:
                continue
            raw = onnx.numpy_helper.from_array(content, tensor.name).raw_data
            start = file.tell()
            file.write(raw)
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                tensor.ClearField(field)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", name), ("offset", str(start)), ("length", str(len(raw)))):
                tensor.external_data.add(key=key, value=value)


def check_model(model: onnx.ModelProto | str) -> None:
    """The checker of the `onnx` package accepts the model, or that of a file.

    Raises: OnnxError.
    """
    try:
        checker.check_model(model)
    except (checker.ValidationError, ValueError) as error:
        raise OnnxError(f"the model as written is not valid: {shortened(error)}") from error
