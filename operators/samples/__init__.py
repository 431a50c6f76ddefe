"""Sample calls of every operator, and the checks that hold its declaration against torch's own kernel: for tests and for `rewright fuzz`.

`drawing` has the drawers, `pointwise`, `tensors` and `networks` one row per operator, `agreement` the checks.
"""
