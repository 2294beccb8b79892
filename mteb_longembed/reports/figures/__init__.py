"""The report's figures: each module collects its data (`..._data`) and draws them (`draw`).

Collecting needs no matplotlib, so the data can be tested and printed without it.
"""
