"""From texts to token ids, without reading more of a text than is needed."""
