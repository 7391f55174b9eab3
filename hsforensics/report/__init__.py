"""Renders results as terminal text, JSON and CSV. Computes nothing."""
