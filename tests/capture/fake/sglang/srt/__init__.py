"""Fake."""
