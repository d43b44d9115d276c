"""Benchmarks: what is sent, who sends it, what was measured, and whether a difference is one."""
