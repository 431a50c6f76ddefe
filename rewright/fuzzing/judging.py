"""One random model tried, and when it fails: made small, blamed on a rule where one is to blame, and written as a script."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rewright.fuzzing.comparing import Different
from rewright.fuzzing.finding import Outcome, Problem, Subject, problem_of
from rewright.fuzzing.models import Behaviour, Setting, Unsuitable, check, check_given
from rewright.fuzzing.programs import Program
from rewright.fuzzing.shrinking import smallest
from search.check import NumericCheckError


def judged(subject: Subject, program: Program | None, outcome: Outcome) -> Problem | None:
    """What is wrong with the optimiser on this model, if something is; the report is about a smaller model that fails alike."""
    if program is None:
        outcome.unsuitable += 1
        return None
    walk = subject.kind == "walk"
    prefer = (subject.name,) if walk else ()
    setting = Setting.of(program.seed, subject.source)
    first = failure(program, walk, setting, prefer, outcome)
    if first is None:
        return None
    cause = cause_of(first, None)
    small = smallest(program, lambda other: (found := failure(other, walk, setting, prefer)) is not None and cause_of(found, None) == cause)
    last = failure(small, walk, setting, prefer) or first
    before_rules = isinstance(last, Different) and not last.stage.startswith("optimised")
    blamed = "" if walk or before_rules else to_blame(small, setting)
    text = f"{subject}: {_words(last)}" + (f"\nfirst wrong with {blamed}" if blamed else "") + f"\n{setting}\n\n{small}"
    name = f"{cause_of(last, small)}: {blamed}" if blamed else cause_of(last, small)
    return Problem(name, text, script_of(small, walk, setting, prefer))


def judged_given(name: str, seed: int, outcome: Outcome) -> Problem | None:
    """What is wrong with the optimiser on a model of the user's, if something is."""
    behaviour = Behaviour()
    try:
        check_given(name, seed, behaviour)
    except Unsuitable:
        outcome.unsuitable += 1
        return None
    except Exception as error:  # whatever the optimiser raises on a model that PyTorch runs is its fault
        lines = [
            "import sys",
            "",
            "from rewright.fuzzing.finding import Outcome, Subject",
            "from rewright.fuzzing.judging import judged_given",
        ]
        lines += ["", f"problem = judged_given({name!r}, {seed}, Outcome(0, Subject('given', {name!r})))"]
        lines += ["print(problem.text if problem else 'no difference')", "sys.exit(problem is not None)", ""]
        return Problem(f"{name}: {cause_of(error, None)}", f"{name}: {_words(error)}\n{Setting.of(seed)}", "\n".join(lines))
    outcome.fired.update(behaviour.fired)
    return None


def failure(
    program: Program, walk: bool, setting: Setting, prefer: tuple[str, ...], outcome: Outcome | None = None, allowed: Any = None
) -> Exception | None:
    """What the check of the model raises; None when it passes or says nothing."""
    behaviour = Behaviour()
    try:
        check(program, walk, setting, behaviour, prefer, allowed)
    except Unsuitable:
        if outcome is not None:
            outcome.unsuitable += 1
        return None
    except Exception as error:  # whatever the optimiser raises on a model that PyTorch runs is its fault
        return error
    if outcome is not None:
        outcome.fired.update(behaviour.fired)
    return None


def cause_of(error: Exception, program: Program | None) -> str:
    """Equal for failures that are one fault: the stage and kind of a difference, or the exception and its place.

    With a program: what is wrong before any rule was applied, by the program's last statement as well.
    """
    if isinstance(error, Different):
        stage = error.stage.split(", input")[0]
        last = f" after {program.statements[-1].name}" if program and program.statements and stage in ("capture", "emit") else ""
        return f"{stage}: {error.what}{last}"
    if isinstance(error, NumericCheckError):
        return "optimised: NumericCheckError"
    return problem_of(error, "").cause


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Different) else problem_of(error, "raised").text


def to_blame(program: Program, setting: Setting) -> str:
    """Of the rules that its optimisation applies, the one without which the model no longer fails as it did; empty where there is none.

    Another failure than the first, met on the way, is said after the rule's name: it is another fault.
    """
    behaviour = Behaviour()
    left_out: list[str] = []
    first = ""
    for _ in range(4):
        try:
            check(program, False, setting, behaviour, (), lambda name: name not in left_out)
        except Unsuitable:
            break
        except Exception as error:  # whatever the optimiser raises on a model that PyTorch runs is its fault
            cause = cause_of(error, None)
            first = first or cause
            if cause != first:
                return f"{left_out[-1]} (without it {cause})"
            used = [name for name in behaviour.last if name not in left_out]
            if not used:
                return ""
            left_out.append(used[-1])
            continue
        return left_out[-1] if left_out else ""
    return ""


def script_of(program: Program, walk: bool, setting: Setting, prefer: tuple[str, ...]) -> str:
    """Code that tries the same model again; exit status 1 when it still fails."""
    literal = ", ".join(f"{f.name}={getattr(program, f.name)!r}" for f in fields(program))
    model = "\n".join(f"#   {line}".rstrip() for line in repr(program).splitlines())
    lines = [
        '"""A random model on which the optimiser and eager PyTorch differ; see the model below."""',
        "",
        "import sys",
        "",
        "from rewright.fuzzing.judging import failure",
        "from rewright.fuzzing.models import Setting",
        "from rewright.fuzzing.programs import Given, Program, Statement",
        "",
        model,
        "",
        f"program = Program({literal})",
        f"problem = failure(program, {walk}, {setting!r}, {prefer!r})",
        "print(f'{type(problem).__name__}: {problem}' if problem else 'no difference')",
        "sys.exit(problem is not None)",
        "",
    ]
    return "\n".join(lines)


__all__ = ["cause_of", "failure", "judged", "judged_given", "script_of", "to_blame"]
