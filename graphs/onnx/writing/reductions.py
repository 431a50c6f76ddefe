"""Reductions."""

from __future__ import annotations

from graphs.onnx.errors import OnnxError
from graphs.onnx.writing.registry import Spelling, spells

_SINCE = {"ReduceSum": 13}


def reduce(spelling: Spelling, name: str, x: str, axes: tuple[int, ...], keep: bool) -> str:
    """A reduction along axes counted from the end."""
    rank = spelling.type(0).ndim
    places = [axis + rank for axis in axes]
    since = _SINCE.get(name, 18)
    return str(spelling.emit(name, x, *spelling.axes(places, since), **spelling.axes_attribute(places, since), keepdims=int(keep)))


def _declare(ours: str, name: str) -> None:
    @spells(ours)
    def spell(spelling: Spelling) -> str:
        operator = spelling.operator
        if not operator.axes:
            return spelling.at(0, spelling.out.dtype)
        return reduce(spelling, name, spelling.at(0, spelling.out.dtype), operator.axes, operator.keep)


for _ours, _name in {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Amax": "ReduceMax",
    "Amin": "ReduceMin",
    "Product": "ReduceProd",
    "LogSumExp": "ReduceLogSumExp",
    "EuclideanNorm": "ReduceL2",
}.items():
    _declare(_ours, _name)


@spells("All", "AnyOf")
def quantify(spelling: Spelling) -> str:
    operator = spelling.operator
    numbers = spelling.cast(spelling.at(0, "bool"), "int32")
    if not operator.axes:
        return spelling.cast(numbers, "bool")
    name = "ReduceMin" if type(operator).__name__ == "All" else "ReduceMax"
    return spelling.cast(reduce(spelling, name, numbers, operator.axes, operator.keep), "bool")


@spells("ArgMax", "ArgMin")
def where_extreme(spelling: Spelling) -> str:
    operator = spelling.operator
    axis = operator.axis + spelling.type(0).ndim
    return str(spelling.emit(type(operator).__name__, spelling[0], axis=axis, keepdims=int(operator.keep)))


@spells("MaxAlong", "MinAlong")
def extreme(spelling: Spelling) -> list[str]:
    operator = spelling.operator
    largest = type(operator).__name__ == "MaxAlong"
    values = reduce(spelling, "ReduceMax" if largest else "ReduceMin", spelling[0], (operator.axis,), operator.keep)
    axis = operator.axis + spelling.type(0).ndim
    places = spelling.emit("ArgMax" if largest else "ArgMin", spelling[0], axis=axis, keepdims=int(operator.keep))
    return [values, str(places)]


@spells("Cumsum")
def cumulative_sum(spelling: Spelling) -> str:
    spelling.need(11, "CumSum")
    axis = spelling.operator.axis + spelling.out.ndim
    return str(spelling.emit("CumSum", spelling.at(0, spelling.out.dtype), spelling.constant(axis, "int64")))


@spells("Variance", "StandardDeviation")
def variance(spelling: Spelling) -> str:
    """The mean square of what is left of the mean, over one less than the count where `correction` says so."""
    operator, x_type = spelling.operator, spelling.type(0)
    count = 1
    for axis in operator.axes:
        size = x_type.shape[axis]
        if not isinstance(size, int):
            raise OnnxError(f"{operator}: sizes must be numbers")
        count *= size
    x, dtype = spelling[0], spelling.out.dtype
    centred = spelling.emit("Sub", x, reduce(spelling, "ReduceMean", x, operator.axes, True))
    total = reduce(spelling, "ReduceSum", spelling.emit("Mul", centred, centred), operator.axes, operator.keep)
    correction = operator.correction
    result = spelling.emit("Div", total, spelling.constant(float(max(count - correction, 0)), dtype))
    return str(spelling.emit("Sqrt", result) if type(operator).__name__ == "StandardDeviation" else result)
