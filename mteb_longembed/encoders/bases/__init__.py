"""What is known about a base model before its weights load, and how unusual checkpoints are read.

`resolve` turns a name, arguments, a loaded model or a saved folder into one `ResolvedModel`. All code that loads,
describes or stores a model starts from it. This room may import `names`, `strategies`, `families` and `errors`.
"""
