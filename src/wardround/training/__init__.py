"""The training loop, its optimizers, schedules, batches and checkpoints."""
