"""Proof, tests, verdicts and certificates of rewrite rules."""
