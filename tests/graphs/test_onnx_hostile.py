"""Broken and hostile ONNX files: one sentence, exit status 2, no crash, no file written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from rewright.cli.main import run  # noqa: E402

FLOAT = TensorProto.FLOAT
X = helper.make_tensor_value_info("x", FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", FLOAT, [2, 3])


def model(nodes, inputs=(X,), outputs=(Y,), initialisers=(), opset=17, **more):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def node(name, inputs, outputs, **attributes):
    return helper.make_node(name, inputs, outputs, **attributes)


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape):
    return numpy_helper.from_array(numpy.ones(shape, numpy.float32), name)


def one(name, inputs=("x",), initialisers=(), shape=(2, 3), out=(2, 3), opset=17, **attributes):
    """A model of one node."""
    return model([node(name, list(inputs), ["y"], **attributes)], [value("x", list(shape))], [value("y", list(out))], initialisers, opset)


RELU = one("Relu")
LINEAR = model([node("MatMul", ["x", "w"], ["y"])], initialisers=[weight("w", 3, 3)])


def external(location: str, **more: str):
    result = model([node("MatMul", ["x", "w"], ["y"])])
    tensor = result.graph.initializer.add(name="w", data_type=FLOAT, dims=[3, 3], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=text)
    return result


def held(**fields):
    """A model whose initialiser has these fields."""
    result = model([node("MatMul", ["x", "w"], ["y"])])
    result.graph.initializer.append(TensorProto(name="w", **fields))
    return result


def function(name: str, calls: str):
    return helper.make_function(
        "own", name, ["a"], ["b"], [helper.make_node(calls, ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)]
    )


def with_functions(*functions):
    result = model([helper.make_node("f", ["x"], ["y"], domain="own")])
    result.opset_import.append(helper.make_opsetid("own", 1))
    result.functions.extend(functions)
    return result


def branches(then, otherwise):
    condition = numpy_helper.from_array(numpy.array(True), "c")
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)], initialisers=[condition])


def branch(reads: str):
    return helper.make_graph([node("Relu", [reads], ["b"])], "branch", [], [value("b", [2, 3])])


def wrapped(field: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    size, length = len(content), b""
    while True:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
        if not size:
            return bytes([field << 3 | 2]) + length + content


def nested(depth: int) -> bytes:
    """A graph in an attribute of a node of a graph, and so on."""
    content = b""
    for _ in range(depth):
        content = wrapped(1, wrapped(5, wrapped(6, content)))
    return wrapped(7, content)


def changed(base, change: Callable[[object], object]):
    copy = onnx.ModelProto()
    copy.CopyFrom(base)
    change(copy)
    return copy


def set_elem_type(number: int):
    def change(broken) -> None:
        broken.graph.input[0].type.tensor_type.elem_type = number

    return change


def forget_attribute(name: str, **attributes):
    return changed(one(name, **attributes), lambda broken: broken.graph.node[0].ClearField("attribute"))


BYTES: dict[str, bytes] = {
    "empty": b"",
    "text": b"this is no model\n",
    "random": bytes(numpy.random.default_rng(0).integers(0, 256, 500, dtype=numpy.uint8)),
    "archive": b"PK\x03\x04" + bytes(60),
    "cut at a quarter": LINEAR.SerializeToString()[: len(LINEAR.SerializeToString()) // 4],
    "cut at the middle": LINEAR.SerializeToString()[: len(LINEAR.SerializeToString()) // 2],
    "cut at three quarters": LINEAR.SerializeToString()[: len(LINEAR.SerializeToString()) * 3 // 4],
    "cut by a byte": LINEAR.SerializeToString()[:-1],
    "a length beyond the file": b"\x3a\xff\xff\xff\xff\x07" + bytes(20),
    "a tensor only": weight("w", 2).SerializeToString(),
    "nested too deep": nested(200),
}

MODELS = {
    "a cycle": model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]),
    "a node that reads itself": model([node("Add", ["x", "y"], ["y"])]),
    "no initialiser": model([node("MatMul", ["x", "w"], ["y"])]),
    "no producer of the output": model([node("Relu", ["x"], ["z"])]),
    "a value computed twice": model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]),
    "an input computed": model([node("Relu", ["x"], ["x"]), node("Relu", ["x"], ["y"])]),
    "an initialiser computed": model([node("Relu", ["x"], ["w"]), node("MatMul", ["x", "w"], ["y"])], initialisers=[weight("w", 3, 3)]),
    "an initialiser twice": model([node("MatMul", ["x", "w"], ["y"])], initialisers=[weight("w", 3, 3), weight("w", 3, 3)]),
    "an input twice": model([node("Relu", ["x"], ["y"])], [X, X]),
    "no outputs": model([node("Relu", ["x"], ["y"])], outputs=[]),
    "an initialiser without a name": model([node("Relu", ["x"], ["y"])], initialisers=[weight("", 3)]),
    "opset of the future": one("Relu", opset=999),
    "opset of the past": one("BatchNormalization", ["x", *"abcd"], [weight(name, 3) for name in "abcd"], (1, 3, 8), (1, 3, 8), 5),
    "opset 0": one("Relu", opset=0),
    "an unknown operator": one("Frobnicate"),
    "an operator of a domain that is not imported": model([helper.make_node("Relu", ["x"], ["y"], domain="elsewhere")]),
    "an operator of a later opset": one("Gelu", opset=17),
    "a wrong shape declared": one("Relu", out=(2, 4)),
    "a wrong rank declared": one("Relu", out=(2, 3, 1)),
    "a wrong dtype declared": model([node("Relu", ["x"], ["y"])], outputs=[value("y", [2, 3], TensorProto.INT64)]),
    "a wrong shape in between": changed(
        model([node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])]), lambda m: m.graph.value_info.append(value("a", [5]))
    ),
    "factors that do not fit": model([node("MatMul", ["x", "w"], ["y"])], initialisers=[weight("w", 4, 3)]),
    "channels that do not fit": one("Conv", ["x", "w"], [weight("w", 4, 5, 3, 3)], (1, 3, 8, 8), (1, 4, 6, 6)),
    "a kernel larger than the image": one("Conv", ["x", "w"], [weight("w", 4, 3, 9, 9)], (1, 3, 8, 8), (1, 4, 6, 6)),
    "statistics of other channels": one("BatchNormalization", ["x", *"abcd"], [weight(name, 5) for name in "abcd"], (1, 3, 8), (1, 3, 8)),
    "shapes that do not broadcast": model([node("Add", ["x", "w"], ["y"])], initialisers=[weight("w", 4)]),
    "sizes that do not fit the elements": one("Reshape", ["x", "s"], [numpy_helper.from_array(numpy.array([4, 2]), "s")], out=(4, 2)),
    "parts that do not fit": model(
        [node("Concat", ["x", "w"], ["y"], axis=0)], outputs=[value("y", [4, 3])], initialisers=[weight("w", 2, 5)]
    ),
    "an order that is none": one("Transpose", perm=[0, 0]),
    "an axis outside": one("Softmax", axis=7),
    "squeezing what is not 1": one("Squeeze", ["x", "a"], [numpy_helper.from_array(numpy.array([0]), "a")], out=(3,)),
    "a kernel of text": one("MaxPool", shape=(1, 3, 8, 8), out=(1, 3, 7, 7), kernel_shape="two"),
    "no kernel": forget_attribute("MaxPool", shape=(1, 3, 8, 8), out=(1, 3, 7, 7), kernel_shape=[2, 2]),
    "no axis": changed(
        model([node("Concat", ["x", "x"], ["y"], axis=0)], outputs=[value("y", [4, 3])]), lambda m: m.graph.node[0].ClearField("attribute")
    ),
    "a constant without a value": model([node("Constant", [], ["c"]), node("Add", ["x", "c"], ["y"])]),
    "too many inputs": one("Relu", ["x", "x"]),
    "too few inputs": one("Add"),
    "an element type that is none": changed(RELU, set_elem_type(77)),
    "an element type undefined": changed(RELU, set_elem_type(0)),
    "a cast to nothing": one("Cast", to=999),
    "a tensor of too few bytes": held(data_type=FLOAT, dims=[3, 3], raw_data=bytes(8)),
    "a tensor of too many bytes": held(data_type=FLOAT, dims=[3, 3], raw_data=bytes(80)),
    "a tensor of no type": held(data_type=0, dims=[3, 3], raw_data=bytes(36)),
    "a tensor of negative size": held(data_type=FLOAT, dims=[-3, 3], raw_data=bytes(36)),
    "a tensor of huge size": held(data_type=FLOAT, dims=[1 << 40, 1 << 20], raw_data=bytes(36)),
    "an input of huge size": model([node("Relu", ["x"], ["y"])], [value("x", [1 << 40, 2])], [value("y", [1 << 40, 2])]),
    "a fill of huge size": one("ConstantOfShape", ["s"], [numpy_helper.from_array(numpy.array([1 << 40]), "s")], out=(1 << 40,)),
    "padding of huge size": one("Pad", ["x", "p"], [numpy_helper.from_array(numpy.array([0, 0, 1 << 40, 0]), "p")], out=((1 << 40) + 2, 3)),
    "external data above the folder": external("../secret.bin"),
    "external data at an absolute place": external("/etc/hostname"),
    "external data that is not there": external("nothing.bin"),
    "external data without a place": external(""),
    "external data in a folder": external("."),
    "external data that is too short": external("short.bin"),
    "external data beyond the end": external("short.bin", offset="1000", length="36"),
    "external data of negative offset": external("short.bin", offset="-4"),
    "external data behind a link": external("link.bin"),
    "a function that calls itself": with_functions(function("f", "f")),
    "functions that call one another": with_functions(function("f", "g"), function("g", "f")),
    "a branch that reads nothing": branches(branch("nowhere"), branch("x")),
    "a choice without branches": changed(branches(branch("x"), branch("x")), lambda m: m.graph.node[0].ClearField("attribute")),
    "a name that paints": model([node("MatMul", ["x", "\x1b[31mw\x1b[0m\n[bold]"], ["y"])]),
    "a name without end": model([node("MatMul", ["x", "w" * 100_000], ["y"])]),
}


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that the command line says of a model."""
    out = path.parent / "out.onnx"
    before = sorted(path.parent.iterdir())
    status = run(["optimize", str(path), "-o", str(out), "--budget", "1"])
    said = capsys.readouterr()
    assert status == 2, said
    assert sorted(path.parent.iterdir()) == before
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("rewright: ")
    assert len(lines[0]) < 700
    assert "Traceback" not in said.err and "internal error" not in said.err and "\x1b" not in said.err
    return lines[0]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_model(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(BYTES[name])
    assert "model.onnx" in refused(path, capsys)


@pytest.mark.parametrize("name", MODELS)
def test_models_that_are_broken(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(36))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "short.bin").write_bytes(bytes(8))
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    path = folder / "model.onnx"
    path.write_bytes(MODELS[name].SerializeToString())
    assert "model.onnx" in refused(path, capsys)


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(tmp_path / "model.onnx", capsys)


def test_a_folder_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.onnx").mkdir()
    assert "no such file" in refused(tmp_path / "model.onnx", capsys)


def test_there_are_sixty_cases() -> None:
    assert len(BYTES) + len(MODELS) >= 60
