"""Where ``installed_version`` looks when a package has no metadata."""

__version__ = "0.5.99"
