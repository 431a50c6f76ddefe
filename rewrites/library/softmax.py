"""Softmax: eˣ over its sum, and its logarithm.

A shift common to a row cancels: e^(x+c)/Σe^(x+c) = eˣ/Σeˣ; log softmax(x) = x − log Σeˣ; the row sums are 1.
Rows have k entries; a softmax over no entries has no elements.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rewrites import Change, Equality, Requires, Rule

Rows = Float[Tensor, "*s k"]

some_entry = Requires("a row has at least one entry", lambda k: k >= 1)
wider = Equality.REAL.allowing(Change.NAN_INF, Change.OVERFLOW)


class SoftmaxIgnoresShift(Rule):
    """A number added to all entries of a row does not change its softmax."""

    source = "Bridle 1990; Milakov and Gimelshein 2018, section 2"
    equality = wider
    trainable = True

    def pattern(x: Rows, shift: Float[Tensor, "*s 1"]):
        return torch.softmax(x + shift, -1)

    def replacement(x, shift):
        return torch.softmax(x, -1)


class SoftmaxIgnoresScalarShift(Rule):
    """A scalar added to all entries does not change the softmax."""

    source = "Bridle 1990; Milakov and Gimelshein 2018, section 2"
    equality = wider
    trainable = True

    def pattern(x: Rows, shift: float):
        return torch.softmax(x + shift, -1)

    def replacement(x, shift):
        return torch.softmax(x, -1)


class LogSoftmaxIgnoresShift(Rule):
    """A number added to all entries of a row does not change its log-softmax."""

    source = "Milakov and Gimelshein 2018, section 2"
    equality = wider
    trainable = True

    def pattern(x: Rows, shift: Float[Tensor, "*s 1"]):
        return torch.log_softmax(x + shift, -1)

    def replacement(x, shift):
        return torch.log_softmax(x, -1)


class SoftmaxFromStableParts(Rule):
    """Exponentials of the distances to the row's maximum, over their sum, are the softmax."""

    source = "Milakov and Gimelshein 2018, algorithm 2"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    def replacement(x):
        return torch.softmax(x, -1)


class SoftmaxFromParts(Rule):
    """Exponentials over their sum are the softmax, which does not overflow where the exponentials do."""

    source = "Milakov and Gimelshein 2018, algorithm 1"
    tried = True
    equality = wider
    trainable = True

    def pattern(x: Rows):
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)

    def replacement(x):
        return torch.softmax(x, -1)


class LogOfSoftmax(Rule):
    """The logarithm of a softmax is the log-softmax, which keeps what the softmax rounds to zero."""

    source = "PyTorch, torch.nn.functional.log_softmax"
    equality = wider
    trainable = True

    def pattern(x: Rows):
        return torch.log(torch.softmax(x, -1))

    def replacement(x):
        return torch.log_softmax(x, -1)


class ExponentialOfLogSoftmax(Rule):
    """The exponential of a log-softmax is the softmax."""

    source = "PyTorch, torch.nn.functional.log_softmax"
    trainable = True

    def pattern(x: Rows):
        return torch.exp(torch.log_softmax(x, -1))

    def replacement(x):
        return torch.softmax(x, -1)


class SoftmaxOfLogSoftmax(Rule):
    """The softmax of a log-softmax is the softmax: both differ by a number per row."""

    source = "shift invariance"
    equality = wider
    trainable = True

    def pattern(x: Rows):
        return torch.softmax(torch.log_softmax(x, -1), -1)

    def replacement(x):
        return torch.softmax(x, -1)


class LogSoftmaxIsIdempotent(Rule):
    """The log-softmax of a log-softmax is itself."""

    source = "shift invariance"
    equality = wider
    trainable = True

    def pattern(x: Rows):
        return torch.log_softmax(torch.log_softmax(x, -1), -1)

    def replacement(x):
        return torch.log_softmax(x, -1)


class LogSoftmaxAsDifference(Rule):
    """Entries less the logarithm of the sum of their exponentials are the log-softmax."""

    source = "definition of log-softmax"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(x: Rows):
        return x - torch.logsumexp(x, -1, keepdim=True)

    def replacement(x):
        return torch.log_softmax(x, -1)


class LogSumExpFromParts(Rule):
    """The logarithm of a sum of exponentials is logsumexp, which does not overflow."""

    source = "Blanchard, Higham and Higham 2021"
    equality = wider
    trainable = True

    def pattern(x: Rows):
        return torch.log(torch.exp(x).sum(-1))

    def replacement(x):
        return torch.logsumexp(x, -1)


class LogSumExpOfShift(Rule):
    """A number added to all entries of a row is added to its logsumexp."""

    source = "Blanchard, Higham and Higham 2021"
    equality = wider
    trainable = True
    bidirectional = True

    def pattern(x: Rows, shift: Float[Tensor, "*s 1"]):
        return torch.logsumexp(x + shift, -1, keepdim=True)

    def replacement(x, shift):
        return torch.logsumexp(x, -1, keepdim=True) + shift


class SoftmaxOfOneEntry(Rule):
    """The softmax of rows of one entry is 1."""

    source = "definition of softmax"
    equality = Equality.REAL.allowing(Change.NAN_INF)

    def pattern(x: Float[Tensor, "*s 1"]):
        return torch.softmax(x, -1)

    def replacement(x):
        return torch.ones_like(x)


class SumOfSoftmax(Rule):
    """The rows of a softmax sum to 1."""

    source = "definition of softmax"
    equality = Equality.REAL.allowing(Change.NAN_INF)
    requires = [some_entry]

    def pattern(x: Rows):
        return torch.softmax(x, -1).sum(-1, keepdim=True)

    def replacement(x):
        return torch.ones_like(x[..., :1])


class SoftmaxOfTwoAsSigmoid(Rule):
    """The first of two entries' softmax is the sigmoid of their difference."""

    source = "logistic regression as the softmax of two classes"
    equality = wider
    trainable = True

    def pattern(a: Float[Tensor, "*s"], b: Float[Tensor, "*s"]):
        return torch.softmax(torch.stack((a, b), -1), -1)[..., 0]

    def replacement(a, b):
        return torch.sigmoid(a - b)


class SoftmaxOfLogarithm(Rule):
    """The softmax of logarithms is the share of the row's sum."""

    source = "exp and log are inverse on the positive numbers"
    equality = wider
    requires = [Requires("the entries are positive", lambda x: x > 0)]
    trainable = True

    def pattern(x: Rows):
        return torch.softmax(torch.log(x), -1)

    def replacement(x):
        return x / x.sum(-1, keepdim=True)


class SoftmaxOfTranspose(Rule):
    """The softmax along the rows of a transposed matrix is the transposed softmax along its columns."""

    source = "a softmax acts along one axis only"
    trainable = True
    bidirectional = True

    def pattern(x: Float[Tensor, "*s m k"]):
        return torch.softmax(x.transpose(-1, -2), -1)

    def replacement(x):
        return torch.softmax(x, -2).transpose(-1, -2)
