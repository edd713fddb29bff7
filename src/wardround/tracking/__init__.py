"""A run's events for those who watch all their trainings in one place: TensorBoard and MLflow."""
