"""Loaded by SGLang itself (``SGLANG_EXTERNAL_MODEL_PACKAGE``); its one module changes a decision and adds no model."""
