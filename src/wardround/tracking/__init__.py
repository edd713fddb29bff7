"""Send the figures of a run to TensorBoard or MLflow while it is running."""
