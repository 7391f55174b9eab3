"""Readers of training dumps: one small file for each producer, one detector. Knows files, not engines."""
