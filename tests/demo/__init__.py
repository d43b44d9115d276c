"""Tests of the simulated node."""
