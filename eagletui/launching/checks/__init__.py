"""Preflight checks: pure functions from facts to Check. `doctor` lists the same ones."""
