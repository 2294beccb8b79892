"""Context-extension strategies, the model families that they act on, and the encoders made from both."""
