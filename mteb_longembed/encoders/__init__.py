"""Context-extension strategies, and the encoders that they make of base models."""
