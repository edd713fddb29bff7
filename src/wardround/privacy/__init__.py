"""What wraps an aggregation: differential privacy, robust aggregation, and audits of what leaks."""
