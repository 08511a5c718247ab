"""Trains a small text model several times and compares every bit: `python -m demo`."""
