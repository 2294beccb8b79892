"""What is written for others: model cards, and folders that old versions read."""
