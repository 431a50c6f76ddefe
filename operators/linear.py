"""Matrix products: m rows, n columns, k the contracted dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.arithmetic import Multiply
from operators.axes import sizes
from operators.expressions import Dim, product
from operators.formulas import equal
from operators.layout import Reshape
from operators.meaning import total
from operators.operator import (
    Applied,
    Operator,
    TensorType,
    Unsupported,
    alias,
    broadcast,
    broadcast_index,
    is_known_equal,
    note_units,
    operator,
    require,
)
from operators.pointwise import reduce_to, refuse, same_dtype

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="matmul mm bmm __matmul__ __rmatmul__", onnx="MatMul")
class MatMul(Operator):
    """Product of two matrices, over any batch dimensions (which broadcast).

    a: [*batch, m, k]   b: [*batch, k, n]   ->   [*batch, m, n]
    """

    def shape(self, a: TensorType, b: TensorType) -> tuple[Dim, ...]:
        require(self, a.ndim >= 2 and b.ndim >= 2, f"operands must have at least 2 axes, got {a.ndim} and {b.ndim}")
        require(self, equal(a.shape[-1], b.shape[-2]), f"columns of a and rows of b must be equal, got {a.shape[-1]} and {b.shape[-2]}")
        return (*broadcast(self, a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])

    def element(self, at: tuple[Any, ...], a: Any, b: Any, *, output: int = 0) -> Any:
        *batch, i, j = at
        left, right = broadcast_index(batch, a.shape[:-2]), broadcast_index(batch, b.shape[:-2])
        return total(a.shape[-1], lambda k: a[*left, i, k] * b[*right, k, j])

    def dtype(self, *operands: Any) -> str:
        return same_dtype(self, *operands)

    def flops(self, a: TensorType, b: TensorType) -> Dim:
        return 2 * product(self.shape(a, b)) * a.shape[-1]

    def gradient(self, out_grad: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return reduce_to(out_grad @ b.mT, a), reduce_to(a.mT @ out_grad, b)

    def run(self, a: Any, b: Any) -> Any:
        import torch

        return torch.matmul(a, b)

    @classmethod
    def bind(cls, input: Any, other: Any = None, *, mat2: Any = None, out: Any = None) -> Bound:
        """A vector on the left is a row, one on the right a column; the axis of 1 is removed from the product."""
        refuse(cls, out=out)
        a, b = input, mat2 if other is None else other
        if a.ndim >= 2 and b.ndim >= 2:
            return cls(), [a, b]
        if not a.ndim or not b.ndim:
            raise Unsupported("MatMul: operands must have at least 1 axis")
        left, right = sizes(a), sizes(b)
        row = a if a.ndim >= 2 else Applied(Reshape((1, *left)), [a])
        column = b if b.ndim >= 2 else Applied(Reshape((*right, 1)), [b])
        batch = broadcast(cls.__name__, left[:-2], right[:-2])
        whole = (*batch, *left[-2:-1], *(right[-1:] if b.ndim >= 2 else ()))
        return Reshape(whole), [Applied(cls(), [row, column])]


@alias("mv dot vdot")
def _vector_product(input: Any, other: Any = None, *, vec: Any = None, tensor: Any = None) -> Bound:
    return MatMul.bind(input, next(value for value in (other, vec, tensor) if value is not None))


@alias("outer ger")
def _outer(input: Any, vec2: Any) -> Bound:
    return Multiply(), [Applied(Reshape((*sizes(input), 1)), [input]), vec2]


@operator(torch="linear", onnx="Gemm")
class Linear(Operator):
    """x times the transposed weight, plus the bias.

    x: [*s, k]   weight: [n, k]   bias: [n]   ->   [*s, n]
    """

    absent: ClassVar[dict[int, float]] = {2: 0.0}

    def shape(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> tuple[Dim, ...]:
        require(self, x.ndim >= 1 and weight.ndim == 2, f"x must have at least 1 axis and weight 2, got {x} and {weight}")
        require(self, equal(x.shape[-1], weight.shape[1]), f"the last axis of x and of weight must be equal, got {x} and {weight}")
        if bias is not None:
            require(self, bias.ndim == 1 and equal(bias.shape[0], weight.shape[0]), f"bias must be [{weight.shape[0]}], got {bias}")
        return (*x.shape[:-1], weight.shape[0])

    def element(self, at: tuple[Any, ...], x: Any, weight: Any, bias: Any = None, *, output: int = 0) -> Any:
        *rows, j = at
        result = total(x.shape[-1], lambda k: x[*rows, k] * weight[j, k])
        return result if bias is None else result + bias[(j,)]

    def dtype(self, *operands: Any) -> str:
        return same_dtype(self, *operands)

    def flops(self, x: TensorType, weight: TensorType, bias: TensorType | None = None) -> Dim:
        return 2 * product(x.shape) * weight.shape[0]

    def gradient(self, out_grad: Any, x: Any, weight: Any, bias: Any = None) -> tuple[Any, ...]:
        rows = product(x.shape[:-1])
        flat = out_grad.reshape((rows, weight.shape[0]))
        return out_grad @ weight, flat.mT @ x.reshape((rows, x.shape[-1])), None if bias is None else flat.sum(0)

    def run(self, x: Any, weight: Any, bias: Any = None) -> Any:
        import torch.nn.functional as F

        return F.linear(x, weight, bias)

    @classmethod
    def bind(cls, input: Any, weight: Any, bias: Any = None) -> Bound:
        if weight.ndim != 2:
            raise Unsupported("Linear: a weight of one axis is not covered")
        return cls(), [input, weight, bias]


@operator(torch="addmm baddbmm")
class AddMatMul(Operator):
    """beta · bias + alpha · (a @ b), the bias broadcasting.

    bias: [*batch, m, n]   a: [*batch, m, k]   b: [*batch, k, n]   beta: []   alpha: []   ->   [*batch, m, n]
    """

    def shape(self, bias: TensorType, a: TensorType, b: TensorType, beta: TensorType, alpha: TensorType) -> tuple[Dim, ...]:
        whole = MatMul().shape(a, b)
        require(self, a.ndim == b.ndim and a.ndim in (2, 3), f"a and b must both have 2 or 3 axes, got {a} and {b}")
        require(self, a.ndim == 2 or equal(a.shape[0], b.shape[0]), f"batches of a and b must be equal, got {a} and {b}")
        require(self, broadcast(self, whole, bias.shape) == whole, f"bias must broadcast to the product, got {bias} for {a} and {b}")
        return whole

    def dtype(self, *operands: Any) -> str:
        return same_dtype(self, *operands[:3])

    def element(self, at: tuple[Any, ...], bias: Any, a: Any, b: Any, beta: Any, alpha: Any, *, output: int = 0) -> Any:
        return beta[()] * bias[broadcast_index(at, bias.shape)] + alpha[()] * MatMul().element(at, a, b)

    def flops(self, *operands: TensorType) -> Dim:
        return MatMul().flops(operands[1], operands[2]) + product(self.shape(*operands))

    def gradient(self, out_grad: Any, bias: Any, a: Any, b: Any, beta: Any, alpha: Any) -> tuple[Any, ...]:
        return reduce_to(out_grad * beta, bias), (out_grad * alpha) @ b.mT, a.mT @ (out_grad * alpha), None, None

    def run(self, bias: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
        import torch

        return (torch.addmm if a.ndim == 2 else torch.baddbmm)(bias, a, b, beta=beta, alpha=alpha)

    @classmethod
    def bind(
        cls,
        input: Any,
        mat1: Any = None,
        mat2: Any = None,
        *,
        beta: Any = 1,
        alpha: Any = 1,
        batch1: Any = None,
        batch2: Any = None,
        out: Any = None,
    ) -> Bound:
        refuse(cls, out=out)
        return cls(), [input, batch1 if mat1 is None else mat1, batch2 if mat2 is None else mat2, beta, alpha]


@operator(torch="einsum", onnx="Einsum")
class Einsum(Operator):
    """Sum of products over the letters that the output leaves out.

    `equation` is in torch's notation, with the output written out ("bij,bjk->bik"); a letter stands for one size.
    """

    equation: str

    @property
    def terms(self) -> tuple[list[str], str]:
        """The letters of each operand, and of the output."""
        left, _, right = self.equation.partition("->")
        return left.split(","), right

    def sizes(self, *operands: Any) -> dict[str, Dim]:
        """The size of each letter; sizes of 1 broadcast."""
        found: dict[str, Dim] = {}
        terms, _ = self.terms
        require(self, len(terms) == len(operands), f"operands must be {len(terms)}, got {len(operands)}")
        for letters, operand in zip(terms, operands, strict=True):
            require(self, len(letters) == len(operand.shape), f"{letters} must have {len(letters)} axes, got {len(operand.shape)}")
            own: dict[str, Dim] = {}
            for letter, size in zip(letters, operand.shape, strict=True):
                require(self, equal(own.setdefault(letter, size), size), f"{letters} must be of a square, got {operand.shape}")
                known = found.setdefault(letter, size)
                if is_known_equal(size, 1):
                    continue
                if is_known_equal(known, 1):
                    found[letter] = size
                    continue
                if not is_known_equal(known, size):
                    note_units(known, size)
                require(self, equal(known, size), f"sizes of {letter} must be equal, got {known} and {size}")
        return found

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        found = self.sizes(*operands)
        return tuple(found[letter] for letter in self.terms[1])

    def dtype(self, *operands: Any) -> str:
        return same_dtype(self, *operands)

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        terms, out = self.terms
        found = self.sizes(*operands)
        summed = [letter for letter in found if letter not in out]

        def nest(left: Sequence[str], index: dict[str, Any]) -> Any:
            if left:
                return total(found[left[0]], lambda i: nest(left[1:], {**index, left[0]: i}))
            result = None
            for letters, operand in zip(terms, operands, strict=True):
                factor = operand[broadcast_index([index[letter] for letter in letters], operand.shape)]
                result = factor if result is None else result * factor
            return result

        return nest(summed, dict(zip(out, at, strict=True)))

    def flops(self, *operands: TensorType) -> Dim:
        return len(operands) * product(self.sizes(*operands).values())

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        import torch

        terms, out = self.terms
        if any(len(set(letters)) != len(letters) for letters in terms):
            raise NotImplementedError(f"Einsum: no gradient for a repeated letter, got {self.equation}")
        found = self.sizes(*operands)
        gradients = []
        for position, letters in enumerate(terms):
            others = [(terms[k], operands[k]) for k in range(len(terms)) if k != position]
            given = set(out).union(*(other for other, _ in others))
            kept = "".join(letter for letter in letters if letter in given)
            part = torch.einsum(
                ",".join([out, *(other for other, _ in others)]) + "->" + kept, out_grad, *(operand for _, operand in others)
            )
            whole: Any = tuple(found[letter] for letter in letters)
            spread: Any = tuple(part.shape[kept.index(letter)] if letter in given else 1 for letter in letters)
            gradients.append(reduce_to(part.reshape(spread).expand(whole), operands[position]))
        return tuple(gradients)

    def run(self, *tensors: Any) -> Any:
        import torch

        return torch.einsum(self.equation, *tensors)

    @classmethod
    def bind(cls, equation: Any, *operands: Any, path: Any = None) -> Bound:
        if not isinstance(equation, str):
            raise Unsupported("Einsum: only the form with an equation in text is covered")
        listed = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else list(operands)
        return cls(written_out(equation, [operand.ndim for operand in listed])), listed


def written_out(equation: str, ranks: Sequence[int]) -> str:
    """The equation without blanks or ellipses and with its output written, for operands of these ranks.

    Raises: Unsupported for an ellipsis of different lengths (broadcasting).
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    lengths = {rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term}
    if len(lengths) > 1:
        raise Unsupported(f"Einsum: ellipses must stand for the same axes everywhere, got {equation}")
    free = [letter for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    dots = "".join(free[: lengths.pop()]) if lengths else ""
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        right = ("..." if dots else "") + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return ",".join(terms).replace("...", dots) + "->" + right.replace("...", dots)


@alias("tensordot")
def _tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Bound:
    refuse(Einsum, out=out)
    if isinstance(dims, int):
        axes = (list(range(a.ndim - dims, a.ndim)), list(range(dims)))
    else:
        axes = ([axis % a.ndim for axis in dims[0]], [axis % b.ndim for axis in dims[1]])
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(a.ndim)]
    right = [left[axes[0][axes[1].index(axis)]] if axis in axes[1] else next(letters) for axis in range(b.ndim)]
    kept = [letter for letter in left if letter not in right] + [letter for letter in right if letter not in left]
    return Einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}"), [a, b]
