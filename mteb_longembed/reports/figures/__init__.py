"""The report's figures. A module's `draw` gives all figures for which there are scores."""
