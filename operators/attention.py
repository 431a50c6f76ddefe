"""Attention as one operator; its parts are matrix products and a softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from operators.expressions import Dim, product
from operators.formulas import at_least_zero, equal
from operators.meaning import apply, as_value, compare, constant, divide, total, unravel, when
from operators.operator import Operator, TensorType, Unsupported, broadcast, broadcast_index, operator, require
from operators.pointwise import floating, reduce_to, same_dtype

Bound = tuple[Operator, Sequence[Any]]


@operator(torch="scaled_dot_product_attention", onnx="Attention")
class Attention(Operator):
    """softmax(scale · query keyᵀ + mask) value, the softmax over the keys.

    query: [*batch, h, l, d]   key: [*batch, h', s, d]   value: [*batch, h', s, e]   mask: [*, l, s]   scale: []   ->   [*batch, h, l, e]
    A boolean mask keeps where it is true; `causal` keeps keys up to the query's position; a query that may attend to
    nothing gives 0. The scale is 1/√d when absent. With `grouped`, h is a multiple of h' and each key serves h/h' queries.
    PyTorch's causal kernels for CPUs put −∞ in before they scale, and give NaN for a scale that is not positive.
    Source: Vaswani et al. 2017, equation 1.
    """

    causal: bool = False
    grouped: bool = False
    absent: ClassVar[dict[int, float]] = {3: 0.0}

    def shape(self, *operands: TensorType) -> tuple[Dim, ...]:
        query, key, value, mask, _ = operands
        for name, operand in (("query", query), ("key", key), ("value", value)):
            require(self, operand.ndim >= 2, f"{name} must have at least 2 axes, got {operand}")
        require(self, equal(query.shape[-1], key.shape[-1]), f"the last axes of query and key must be equal, got {query} and {key}")
        require(self, equal(key.shape[-2], value.shape[-2]), f"key and value must be equally long, got {key} and {value}")
        leads = [operand.shape[:-2] for operand in (query, key, value)]
        if self.grouped:
            require(
                self,
                query.ndim == key.ndim == value.ndim and query.ndim >= 3,
                f"grouped attention needs heads, got {query}, {key}, {value}",
            )
            require(self, equal(key.shape[-3], value.shape[-3]), f"key and value must have as many heads, got {key} and {value}")
            require(
                self, equal(query.shape[-3] % key.shape[-3], 0), f"heads of query must be a multiple of those of key, got {query} and {key}"
            )
            leads = [(*lead[:-1], query.shape[-3]) for lead in leads]
        batch = broadcast(self, *leads)
        if mask is not None:
            require(self, not self.causal, "a mask and causal may not both be given")
            require(self, mask.ndim >= 2, f"mask must have at least 2 axes, got {mask}")
            scores = (*batch, query.shape[-2], key.shape[-2])
            require(self, broadcast(self, scores, mask.shape) == scores, f"mask must broadcast to the scores, got {mask} for {scores}")
        return (*batch, query.shape[-2], value.shape[-1])

    def dtype(self, *operands: TensorType) -> str:
        floating(self, operands[0])
        return same_dtype(self, *operands[:3])

    def element(self, at: tuple[Any, ...], *operands: Any, output: int = 0) -> Any:
        query, key, value, mask, scale = operands
        *batch, row, column = at
        factor = divide(constant(1), apply("sqrt", as_value(query.shape[-1]))) if scale is None else scale[()]
        if not self.grouped:
            return self._attend(batch, batch, row, column, query, key, value, mask, factor)
        heads = key.shape[-3]
        from operators.expressions import floor_divide

        return unravel(
            batch[-1],
            (heads, floor_divide(query.shape[-3], heads)),
            lambda head, _: self._attend(batch, [*batch[:-1], head], row, column, query, key, value, mask, factor),
        )

    def _attend(self, batch: Any, key_batch: Any, row: Any, column: Any, query: Any, key: Any, value: Any, mask: Any, factor: Any) -> Any:
        of_query, of_key = broadcast_index(batch, query.shape[:-2]), broadcast_index(key_batch, key.shape[:-2])
        of_value = broadcast_index(key_batch, value.shape[:-2])
        boolean = mask is not None and mask.dtype == "bool"

        def weight(j: Any) -> Any:
            score = factor * total(query.shape[-1], lambda k: query[*of_query, row, k] * key[*of_key, j, k])
            if self.causal:
                return when(at_least_zero(row - j), lambda: apply("exp", score), lambda: constant(0))
            if mask is None:
                return apply("exp", score)
            here = mask[broadcast_index((*batch, row, j), mask.shape)]
            return when(here, lambda: apply("exp", score), lambda: constant(0)) if boolean else apply("exp", score + here)

        whole = total(key.shape[-2], weight)

        def attended() -> Any:
            return total(key.shape[-2], lambda j: divide(weight(j), whole) * value[*of_value, j, column])

        return when(compare("==", whole, constant(0)), lambda: constant(0), attended) if boolean else attended()

    def flops(self, *operands: TensorType) -> Dim:
        query, key = operands[:2]
        *batch, rows, width = self.shape(*operands)
        scores = product(batch) * rows * key.shape[-2]
        return scores * (2 * query.shape[-1] + 2 * width + 3)

    def run(self, *tensors: Any) -> Any:
        import torch.nn.functional as F

        query, key, value, mask, scale = tensors
        return F.scaled_dot_product_attention(query, key, value, mask, 0.0, self.causal, scale=scale, enable_gqa=self.grouped)

    def gradient(self, out_grad: Any, *operands: Any) -> tuple[Any, ...]:
        query, key, value, mask, scale = operands
        if self.causal or self.grouped or (mask is not None and "bool" in str(mask.dtype)):
            raise NotImplementedError("Attention: no gradient for causal, grouped or boolean masks")
        factor = query.new_full((), query.shape[-1]).rsqrt() if scale is None else scale
        scores = factor * (query @ key.mT)
        weights = (scores if mask is None else scores + mask).softmax(-1)
        by_weights = out_grad @ value.mT
        by_scores = weights * (by_weights - (by_weights * weights).sum(-1, keepdim=True))
        by_mask = None if mask is None else reduce_to(by_scores, mask)
        return (
            reduce_to(factor * (by_scores @ key), query),
            reduce_to(factor * (by_scores.mT @ query), key),
            reduce_to(weights.mT @ out_grad, value),
            by_mask,
            None,
        )

    @classmethod
    def bind(
        cls,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: Any = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Bound:
        if not isinstance(dropout_p, (int, float)) or dropout_p != 0:
            raise Unsupported(f"Attention: dropout inside is not covered, got dropout_p={dropout_p}")
        return cls(bool(is_causal), bool(enable_gqa)), [query, key, value, attn_mask, scale]
