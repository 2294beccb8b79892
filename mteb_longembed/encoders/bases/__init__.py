"""What is known of a base model before its weights load, and how unusual checkpoints are read.

`resolve` turns whatever names a model into one `ResolvedModel`; everything that loads, describes or stores a model
starts from it. May import `names`, `strategies`, `families` and `errors`.
"""
