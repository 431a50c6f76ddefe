"""A rule's conditions at a match: those on sizes by numbers, those on values by the tensors themselves, which must be constant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphs.graph import Value
from operators.expressions import Dim, Expression, Variable
from operators.formulas import Comparison, Truth
from rewrites.cases import size_condition, speaks_of_sizes
from rewrites.host import Host
from rewrites.rule import Requires

if TYPE_CHECKING:
    from rewrites.match import Match


class ConditionError(RuntimeError):
    """A condition's predicate raised; the message names rule and condition. Mend the predicate."""


def failed_condition(match: Match, host: Host) -> str | None:
    """The first condition that does not hold at the match, with what it was given."""
    for condition in match.rule.requires:
        unknown = [name for name in condition.names if name not in match.bindings and name not in match.dims]
        if unknown:
            return f'the condition "{condition.sentence}" needs {unknown[0]}, which is not determined'
        sizes = speaks_of_sizes(match.rule, condition)
        reason = _size_condition(match, condition) if sizes else _value_condition(match, host, condition)
        if reason is not None:
            return reason
    return None


def _size_condition(match: Match, condition: Requires) -> str | None:
    known = {name: comparable(value) for name, value in (*match.dims.items(), *match.bindings.items()) if name in condition.names}
    truth = size_condition(match.rule, condition, match.case, known)
    if always(truth):
        return None
    given = ", ".join(f"{name} = {known[name]}" for name in condition.names)
    verdict = "fails" if truth is False else "is not known for symbolic sizes"
    return f'the condition "{condition.sentence}" {verdict} for {given}'


def comparable(value: Any) -> Any:
    """A size as users' predicates take it: symbolic ones compare to statements."""
    if isinstance(value, Expression):
        return Variable(value.terms)
    return tuple(comparable(part) for part in value) if isinstance(value, tuple) else value


def always(truth: Truth) -> bool:
    """The statement is true, or says of a size that it is not negative."""
    if isinstance(truth, Comparison) and truth.relation == ">=":
        return all(coefficient >= 0 for coefficient in truth.expression.terms.values())
    return truth is True


def _value_condition(match: Match, host: Host, condition: Requires) -> str | None:
    import torch

    arguments = []
    for name in condition.names:
        bound: Any = match.bindings[name] if name in match.bindings else match.dims[name]
        if isinstance(bound, Value):
            if not host.is_constant(bound):
                found = f"node {bound.node} ({host.operator(bound.node)})"
                return f'the condition "{condition.sentence}" needs {name} to be a constant, got {found}'
            bound = host.tensor(bound)
        elif hasattr(bound, "number"):
            bound = _filled(bound)
        elif isinstance(bound, Expression):
            return f'the condition "{condition.sentence}" is not known for symbolic {name} = {bound}'
        arguments.append(bound)
    try:
        answer = condition.predicate(*arguments)
        holds = bool(answer.all()) if isinstance(answer, torch.Tensor) else bool(answer)
    except Exception as error:
        what = f"raised {type(error).__name__}: {error}"
        raise ConditionError(f'{match.rule.__name__}: the condition "{condition.sentence}" {what}') from error
    return None if holds else f'the condition "{condition.sentence}" fails for the values of {", ".join(condition.names)}'


def _filled(absent: Any) -> Any:
    import torch

    if any(isinstance(dim, Expression) for dim in absent.type.shape):
        return torch.tensor(absent.number)
    return torch.full(absent.type.shape, absent.number, dtype=getattr(torch, absent.type.dtype))


__all__ = ["ConditionError", "Dim", "always", "comparable", "failed_condition"]
