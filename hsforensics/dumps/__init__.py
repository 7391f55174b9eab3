"""Readers of training dumps: one small file for each producer, one detector. Knows files, not engines."""

from hsforensics.dumps.detect import open_dumps
from hsforensics.dumps.layout import DumpSet

__all__ = ["DumpSet", "open_dumps"]
