"""What is written for others: model cards, and strategies as settings of transformers."""
