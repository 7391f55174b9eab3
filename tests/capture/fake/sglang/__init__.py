"""A fake SGLang: just enough for ``hsforensics.capture.sglang_child``, with a toy model under real forward hooks."""

__version__ = "0.5.99"
