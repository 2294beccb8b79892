"""Training only what an extension added: the new position rows of an absolute model."""
