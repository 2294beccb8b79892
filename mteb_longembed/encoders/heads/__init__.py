"""What sits inside a model of ours: modules of sentence-transformers, and what they pass on."""
