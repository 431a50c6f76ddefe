"""The ONNX project's node tests in other forms: `python -m benchmarks.onnx_variants [NAME...]`.

A model may hold what another one is given: each case is tried with some of its inputs as initialisers, as one element where an operator
takes two tensors, and with a symbolic size for every size. Each form must be read where onnxruntime takes it, evaluated as ONNX wants or
as onnxruntime has it, and, where no node is foreign, written anew and run in onnxruntime. Prints what goes wrong, one line a form.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx

from benchmarks.onnx_nodes import cases, compared, plain, run, without_origin
from graphs.evaluate import evaluate
from graphs.onnx import OnnxError, read, to_model
from operators.arrays import to_numpy, to_torch
from operators.foreign import Foreign

MOST_INPUTS = 6
LEFT_OUT = {
    "test_bernoulli": "what is drawn is another number each time",
    "test_training_dropout": "what is drawn is another number each time",
    "test_if_opt": "the value it holds is an optional sequence, which an initialiser cannot be",
    "test_reduce_max_empty_set": "torch has no largest of nothing, where a symbolic size is 0",
    "test_reduce_min_empty_set": "torch has no smallest of nothing, where a symbolic size is 0",
}
"""Cases that are not tried, by how their names begin, and why."""


@dataclass
class Form:
    """A model in another form: `given` are the inputs that are left; `expected` the outputs, None where only onnxruntime can say."""

    label: str
    model: onnx.ModelProto
    given: dict[str, Any]
    expected: Sequence[Any] | None


def forms(case: Any) -> Iterator[Form]:
    """The case in every other form, where its inputs are all tensors of numbers."""
    inputs, expected = ([plain(value) for value in values] for values in case.data_sets[0])
    names = [info.name for info in case.model.graph.input]
    usable = all(isinstance(value, numpy.ndarray) and value.dtype != object for value in inputs)
    if not usable or len(inputs) != len(names) or not 0 < len(inputs) <= MOST_INPUTS:
        return
    places = range(len(inputs))
    some = [chosen for count in (1, 2) for chosen in itertools.combinations(places, count)]
    some += [tuple(places)] if len(inputs) > 2 else []
    sizeless = symbolic(case.model)
    for words, model in (("", case.model), ("symbolic sizes", sizeless)):
        if words:
            yield Form(words, model, dict(zip(names, inputs, strict=True)), expected)
        for chosen in some:
            if words and len(chosen) == len(inputs):
                continue
            left = {name: value for place, (name, value) in enumerate(zip(names, inputs, strict=True)) if place not in chosen}
            label = f"{words}{', ' if words else ''}inputs {', '.join(map(str, chosen))} held"
            yield Form(label, holding(model, {names[place]: inputs[place] for place in chosen}), left, expected)
    if len(inputs) == 2:
        for place, shape in itertools.product(places, ((), (1,))):
            if inputs[place].size > 1:
                one = {names[place]: inputs[place].reshape(-1)[:1].reshape(shape)}
                yield Form(
                    f"input {place} one number {shape}", holding(unshaped(case.model), one), {names[1 - place]: inputs[1 - place]}, None
                )


def holding(model: onnx.ModelProto, values: dict[str, Any]) -> onnx.ModelProto:
    """The model with initialisers in the place of inputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    infos = [info for info in result.graph.input if info.name not in values]
    del result.graph.input[:]
    result.graph.input.extend(infos)
    result.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in values.items())
    return result


def symbolic(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a name for every size of its inputs and outputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for position, info in enumerate([*result.graph.input, *result.graph.output]):
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"size_{position}_{axis}"
    return result


def unshaped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with nothing said of its outputs' shapes."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for info in result.graph.output:
        info.type.tensor_type.ClearField("shape")
    return result


def fault(case: Any, form: Form) -> str:
    """What goes wrong with a form; nothing if all is well, or if onnxruntime refuses it too."""
    reference = run(form.model, form.given)
    wanted = form.expected if form.expected is not None else reference
    if isinstance(wanted, str):
        return ""
    try:
        graph = read(form.model)
    except OnnxError as error:
        return "" if isinstance(reference, str) else f"not read: {error}"
    foreign = any(isinstance(graph.operator(node), Foreign) for node in graph)
    try:
        tensors = [to_torch(form.given[graph.operator(node).attributes["name"]]) for node in graph.inputs]
        found = [to_numpy(value) for value in evaluate(graph, tensors)]
    except Exception as error:  # whatever it is, it is what goes wrong
        return "" if foreign else f"not evaluated: {type(error).__name__}: {error}"
    said = compared(found, wanted, case.rtol, case.atol)
    if said != "yes" and (isinstance(reference, str) or compared(found, reference, 1e-3, 1e-6) != "yes"):
        return f"evaluated: {said}"
    if foreign or isinstance(reference, str):
        return ""
    try:
        anew = to_model(without_origin(graph))
        onnx.checker.check_model(anew)
    except (OnnxError, onnx.checker.ValidationError) as error:
        return f"not written: {error}"
    again = run(anew, form.given)
    if isinstance(again, str):
        return f"does not run: {again}"
    same = compared(again, reference, 1e-3, 1e-6) == "yes" or compared(again, wanted, 1e-3, 1e-6) == "yes"
    return "" if same else "written, and gives something else"


def faults(case: Any) -> list[tuple[str, str]]:
    """The forms of a case with which something goes wrong, and what; none of a case that is left out."""
    if case.name.startswith(tuple(LEFT_OUT)):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(form.label, found) for form in forms(case) if (found := fault(case, form))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    tried, wrong = 0, 0
    for case in cases(options.names):
        tried += 1
        for label, found in faults(case):
            wrong += 1
            print(f"{case.name}: {label}: {' '.join(found.split())[:200]}", flush=True)
    print(f"{wrong} forms of {tried} cases go wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
