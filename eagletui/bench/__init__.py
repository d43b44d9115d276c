"""Benchmarks and their statistics. Their room; it is empty until the issue on benchmarks."""
