"""numamicro: what memory placement costs on this machine."""

__version__ = "0.1.0"
__all__ = ["Result", "advise", "compare", "load", "measure", "predict"]

TYPE_CHECKING = False  # of `typing`, whose import alone would double what this one takes
if TYPE_CHECKING:
    from numamicro.api import Result, advise, compare, load, measure, predict
else:

    def __getattr__(name):
        """Bring the functions of :mod:`numamicro.api` when the first of them is asked for."""
        if name not in __all__:
            raise AttributeError(f"module 'numamicro' has no attribute '{name}'")
        from numamicro import api

        return getattr(api, name)
