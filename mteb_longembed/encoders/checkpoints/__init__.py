"""What is known about a model before its weights load, and how unusual checkpoints are read.

`open_checkpoint` turns a `ModelSpec` into one `Checkpoint`. All code that loads, describes or stores a model starts
from it. This room may import `names`, `strategies`, `families`, `hub` and `errors`.
"""
