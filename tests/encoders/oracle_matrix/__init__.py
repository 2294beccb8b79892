"""Every native architecture that we claim x every strategy that fits, against slow oracles in float64.

`pytest` runs a cheap selection, `pytest -m long` everything.
"""
