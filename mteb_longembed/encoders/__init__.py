"""Context-extension strategies, the model families they act on, and the encoders made of both."""
