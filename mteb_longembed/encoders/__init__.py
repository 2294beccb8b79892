"""Context-extension strategies, and the encoders that they build from base models."""
