"""Whether two graphs are the same function: aligned, cut at matching values, proved region by region, tested, or told apart."""
