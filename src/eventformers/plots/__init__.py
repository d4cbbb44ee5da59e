"""Pictures of models, training runs and results."""
