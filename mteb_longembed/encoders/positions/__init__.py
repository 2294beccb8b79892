"""How positions enter a model and are changed: strategies, families of models, and attention."""
