"""What a peer has to say, passed from its own process as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a peer, in base units; without a value, why there is none."""

    name: str
    value: float | None
    unit: str
    said: str = ""


def tell(peer: str, figures: Callable[[], Iterable[Figure]]) -> None:
    """Print a peer's figures as they come, and then what kept it from giving more."""
    try:
        for figure in figures():
            print(json.dumps(asdict(figure)), flush=True)
    except ImportError as error:
        _give_up(f"{peer} is not installed ({error})")
    except Exception as error:
        # Whatever other people's software raises; what it told so far counts.
        _give_up(f"{peer} failed: {type(error).__name__}: {error}".splitlines()[0])


def _give_up(why: str) -> None:
    print(json.dumps(asdict(Figure("", None, "", why))), flush=True)
