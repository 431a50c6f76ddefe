"""Cost-driven backtracking search over verified rules."""

from search.check import NumericCheckError
from search.objective import Objective
from search.result import Refusal, SearchResult, Step
from search.searching import Progress, search

__all__ = ["NumericCheckError", "Objective", "Progress", "Refusal", "SearchResult", "Step", "search"]
