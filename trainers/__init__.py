"""Training: recipes, collators and the trainer."""
