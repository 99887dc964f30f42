"""numamicro: what memory placement costs on this machine."""

__version__ = "0.1.0"
