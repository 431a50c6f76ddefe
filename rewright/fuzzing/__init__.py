"""Fuzzing: rules, operators and the whole optimiser, tried on what nobody thought of.

`programs`, `steps` and `families` draw random models as Python text; `operators`, `rules` and `models` hold a subject against an
independent source of truth; `exploring` drives one of them with Hypothesis; `campaign` takes turns on a time budget; `reporting` says it.
"""
