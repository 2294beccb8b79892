"""The report's figures: each module gathers its data (`..._data`) and draws it (`draw`).

Gathering needs no matplotlib, so that the data can be tested and printed without it.
"""
