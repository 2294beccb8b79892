"""What is known about a model before its weights load, and how unusual checkpoints are read."""
