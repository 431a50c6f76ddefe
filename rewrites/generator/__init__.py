"""Discovery of rules: enumerate small graphs, group those that compute the same, keep what no kept rule derives.

1. `terms`: hash-consed expressions over typed inputs.     2. `world`: exact evaluation modulo a prime, functions without altered laws.
3. `vocabulary`: the operators that take part.              4. `enumeration`: classes of equal terms, only representatives extended.
5. `derivation`: what kept rules derive.                    6. `generalisation`: a pair of terms as a rule over all shapes.
7. `discovery`: the whole run.
"""
