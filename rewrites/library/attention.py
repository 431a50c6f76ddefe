"""Attention: softmax(scale·q·kᵀ + mask)·v, its projections, its scale, its biases, its heads.

The rows of the softmax sum to 1, so a vector added to every value is added to the result; a number added to all scores of
a query cancels, so a vector added to every key does nothing. Queries and heads are independent of one another.
b samples, h heads, l queries and s keys of size d, values of size e.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule, Weight

Queries = Float[Tensor, "*b l d"]
Keys = Float[Tensor, "*b s d"]
Values = Float[Tensor, "*b s e"]

some_key = Requires("there is at least one key, so that the weights of a query sum to 1", lambda s: s >= 1)
wider = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW, Change.SIGNED_ZERO)


class MergeQueryKeyValue(Rule):
    """The projections to queries, keys and values are the parts of one linear layer."""

    source = "Shoeybi et al. 2019 (Megatron-LM); ONNX Runtime, AttentionFusion"
    tried = True
    trainable = True

    def pattern(x: Float[Tensor, "*s k"], wq: Weight[Float[Tensor, "m k"]], wk: Weight[Float[Tensor, "n k"]],
                wv: Weight[Float[Tensor, "p k"]], bq: Weight[Float[Tensor, "m"]], bk: Weight[Float[Tensor, "n"]],
                bv: Weight[Float[Tensor, "p"]]):  # fmt: skip
        return F.linear(x, wq, bq), F.linear(x, wk, bk), F.linear(x, wv, bv)

    def replacement(x, wq, wk, wv, bq, bk, bv):
        merged = F.linear(x, torch.cat((wq, wk, wv)), torch.cat((bq, bk, bv)))
        return torch.split(merged, (wq.shape[0], wk.shape[0], wv.shape[0]), -1)


class AttentionFromScaledScores(Rule):
    """The softmax of scaled scores times the values is scaled dot-product attention."""

    source = "Vaswani et al. 2017, equation 1"
    tried = True
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Queries, k: Keys, v: Values, scale: float):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * scale, -1), v)

    def replacement(q, k, v, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)


class AttentionFromDividedScores(Rule):
    """The softmax of divided scores times the values is attention scaled by the reciprocal."""

    source = "Vaswani et al. 2017, equation 1"
    tried = True
    equality = wider
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values, divisor: float):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / divisor, -1), v)

    def replacement(q, k, v, divisor):
        return F.scaled_dot_product_attention(q, k, v, scale=1 / divisor)


class AttentionFromScores(Rule):
    """The softmax of scores times the values is attention of scale 1."""

    source = "Vaswani et al. 2017, equation 1; T5 has no scale"
    tried = True
    equality = wider
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values):
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v)

    def replacement(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)


class AttentionFromMaskedScores(Rule):
    """The softmax of scaled scores plus a mask, times the values, is attention with that mask."""

    source = "Vaswani et al. 2017, section 3.2.3"
    tried = True
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Queries, k: Keys, v: Values, mask: Float[Tensor, "*b l s"], scale: float):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        return torch.matmul(torch.softmax(scores + mask, -1), v)

    def replacement(q, k, v, mask, scale):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


class AttentionFromPaddedScores(Rule):
    """The softmax of divided scores plus a mask common to all heads and queries is attention with that mask."""

    source = "Devlin et al. 2019 (BERT), the padding mask"
    equality = wider
    requires = [Requires("the divisor is not zero", lambda divisor: divisor != 0)]
    trainable = True

    def pattern(q: Float[Tensor, "b h l d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"], mask: Float[Tensor, "b 1 1 s"],
                divisor: float):  # fmt: skip
        scores = torch.matmul(q, k.transpose(-1, -2)) / divisor
        return torch.matmul(torch.softmax(scores + mask, -1), v)

    def replacement(q, k, v, mask, divisor):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=1 / divisor)


class QueryScaleIntoAttention(Rule):
    """A scalar factor of the queries is a factor of the scale."""

    source = "linearity of the scores in the queries"
    equality = wider
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values, factor: float, scale: float):
        return F.scaled_dot_product_attention(q * factor, k, v, scale=scale)

    def replacement(q, k, v, factor, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale * factor)


class KeyScaleIntoAttention(Rule):
    """A scalar factor of the keys is a factor of the scale."""

    source = "linearity of the scores in the keys"
    equality = wider
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values, factor: float, scale: float):
        return F.scaled_dot_product_attention(q, k * factor, v, scale=scale)

    def replacement(q, k, v, factor, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale * factor)


class ValueScaleMovesOutOfAttention(Rule):
    """A scalar factor of the values is a factor of the result."""

    source = "linearity of attention in the values"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Queries, k: Keys, v: Values, factor: float, scale: float):
        return F.scaled_dot_product_attention(q, k, v * factor, scale=scale)

    def replacement(q, k, v, factor, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale) * factor


class ValueBiasMovesOutOfAttention(Rule):
    """A vector added to every value is added to the result, as the weights of a query sum to 1."""

    source = "rows of a softmax sum to 1"
    equality = wider
    requires = [some_key]
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values, bias: Float[Tensor, "e"], scale: float):
        return F.scaled_dot_product_attention(q, k, v + bias, scale=scale)

    def replacement(q, k, v, bias, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale) + bias


class ValueBiasMovesPastSoftmax(Rule):
    """A vector added to every row of the right operand is added to the product, when the left one is a softmax."""

    source = "rows of a softmax sum to 1"
    tried = True
    equality = wider
    requires = [some_key]
    trainable = True

    def pattern(scores: Float[Tensor, "*b l s"], v: Values, bias: Float[Tensor, "e"]):
        return torch.matmul(torch.softmax(scores, -1), v + bias)

    def replacement(scores, v, bias):
        return torch.matmul(torch.softmax(scores, -1), v) + bias


class KeyBiasVanishesInAttention(Rule):
    """A vector added to every key shifts all scores of a query alike, which the softmax ignores."""

    source = "shift invariance of softmax; Radford et al. 2023 (Whisper) leaves the key bias out"
    tried = True
    equality = wider
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values, bias: Float[Tensor, "d"], scale: float):
        return F.scaled_dot_product_attention(q, k + bias, v, scale=scale)

    def replacement(q, k, v, bias, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)


class AttentionOfConcatenatedQueries(Rule):
    """Attention of queries one after the other is the attentions of the parts, one after the other."""

    source = "queries are independent of one another; Dao et al. 2022, section 3.1"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Queries, p: Float[Tensor, "*b m d"], k: Keys, v: Values, scale: float):
        return F.scaled_dot_product_attention(torch.cat((q, p), -2), k, v, scale=scale)

    def replacement(q, p, k, v, scale):
        first = F.scaled_dot_product_attention(q, k, v, scale=scale)
        return torch.cat((first, F.scaled_dot_product_attention(p, k, v, scale=scale)), -2)


class AttentionOfConcatenatedHeads(Rule):
    """Attentions of two sets of heads, side by side, are one attention of all heads."""

    source = "heads are independent of one another; Vaswani et al. 2017, section 3.2.2"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Float[Tensor, "*b h l d"], k: Float[Tensor, "*b h s d"], v: Float[Tensor, "*b h s e"], p: Float[Tensor, "*b i l d"],
                m: Float[Tensor, "*b i s d"], w: Float[Tensor, "*b i s e"], scale: float):  # fmt: skip
        first = F.scaled_dot_product_attention(q, k, v, scale=scale)
        return torch.cat((first, F.scaled_dot_product_attention(p, m, w, scale=scale)), -3)

    def replacement(q, k, v, p, m, w, scale):
        heads = (torch.cat((q, p), -3), torch.cat((k, m), -3), torch.cat((v, w), -3))
        return F.scaled_dot_product_attention(*heads, scale=scale)


class RepeatedKeysAsGroupedAttention(Rule):
    """Attention with each key and value repeated for a group of heads is grouped-query attention."""

    source = "Ainslie et al. 2023 (GQA), section 2.2"
    equality = wider
    trainable = True

    def pattern(q: Float[Tensor, "b h*g l d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"], g: int, scale: float):
        b, h, s, d = k.shape
        e = v.shape[-1]
        keys = k[:, :, None].expand(b, h, g, s, d).reshape(b, h * g, s, d)
        values = v[:, :, None].expand(b, h, g, s, e).reshape(b, h * g, s, e)
        return F.scaled_dot_product_attention(q, keys, values, scale=scale)

    def replacement(q, k, v, g, scale):
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=True)


class GroupedAttentionAsMoreQueries(Rule):
    """In grouped-query attention, the heads of a group are further queries of one head."""

    source = "Shazeer 2019 (multi-query attention), section 3"
    equality = wider
    requires = [Requires("there is at least one head of keys", lambda h: h >= 1)]
    trainable = True

    def pattern(q: Float[Tensor, "b h*g l d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"], scale: float):
        return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=True)

    def replacement(q, k, v, scale):
        b, h = k.shape[:2]
        groups, rows, d = q.shape[1] // h, q.shape[2], q.shape[3]
        merged = F.scaled_dot_product_attention(q.reshape(b, h, groups * rows, d), k, v, scale=scale)
        return merged.reshape(b, h * groups, rows, v.shape[-1])


class AttentionToOneKey(Rule):
    """With one key, every query gets its value."""

    source = "a softmax of one entry is 1"
    equality = wider

    def pattern(q: Queries, k: Float[Tensor, "*b 1 d"], v: Float[Tensor, "*b 1 e"], scale: float):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)

    def replacement(q, k, v, scale):
        return v.expand(*q.shape[:-1], v.shape[-1])


class LinearAttentionAssociates(Rule):
    """Attention without softmax, normalised by its row sums, is computed from keys and values first."""

    source = "Katharopoulos et al. 2020, section 3.2"
    equality = wider
    requires = [Requires("there is a key, so that the sum of no weights divides nothing", lambda s: s >= 1)]
    trainable = True

    def pattern(q: Queries, k: Keys, v: Values):
        weights = torch.matmul(q, k.transpose(-1, -2))
        return torch.matmul(weights / weights.sum(-1, keepdim=True), v)

    def replacement(q, k, v):
        keys = k.transpose(-1, -2)
        return torch.matmul(q, torch.matmul(keys, v)) / torch.matmul(q, keys.sum(-1, keepdim=True))


class CausalFlagAsMask(Rule):
    """Attention under a lower triangular mask is causal attention."""

    source = "PyTorch, torch.nn.functional.scaled_dot_product_attention"
    equality = wider
    requires = [Requires("the scale is positive: PyTorch's causal kernels put −∞ in before they scale", lambda scale: scale > 0)]

    def pattern(q: Queries, k: Keys, v: Values, scale: float):
        mask = torch.ones((q.shape[-2], k.shape[-2]), dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    def replacement(q, k, v, scale):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


class FlattenHeadsOfAttention(Rule):
    """Heads are samples: attention of several heads is attention of a larger batch."""

    source = "heads are independent of one another"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(q: Float[Tensor, "b h l d"], k: Float[Tensor, "b h s d"], v: Float[Tensor, "b h s e"], scale: float):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)

    def replacement(q, k, v, scale):
        b, h = q.shape[:2]
        flat = F.scaled_dot_product_attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), scale=scale)
        return flat.unflatten(0, (b, h))


class ProjectionOfHeads(Rule):
    """A projection cut into heads is a batched product with the weight of each head."""

    source = "Vaswani et al. 2017, section 3.2.2"
    trainable = True

    def pattern(x: Float[Tensor, "b l k"], weight: Weight[Float[Tensor, "h*d k"]], h: int, d: int):
        return F.linear(x, weight).unflatten(-1, (h, d)).transpose(1, 2)

    def replacement(x, weight, h, d):
        return torch.matmul(x[:, None], weight.unflatten(0, (h, d)).transpose(1, 2))
