"""Measurements, and the training of the laboratory models. Not part of the installed package."""
