"""One sentence: what binds, and what another placement would move and would not."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numamicro.cost.predict import TokenCost
    from numamicro.cost.terms import Term

_PLURAL = ("the cores of", "the links")
_FIXED = ("the cores' arithmetic", "the attention", "waiting", "the GPU's")
"""How domains begin that no placement of memory changes."""

_NOTHING = 0.03
"""A smaller part of a token than this is not worth moving."""


def domains(term: Term) -> dict[str, float]:
    """Give the seconds of each domain that make up a time, the longest first."""
    found: dict[str, float] = defaultdict(float)
    for leaf in term.binding():
        found[leaf.domain] += leaf.seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def sentence(cost: TokenCost, nodes: int) -> str:
    """Say what binds a token, and what placing it otherwise would move, among so many nodes."""
    parts = domains(cost.decode)
    whole = cost.decode.seconds
    name, longest = next(iter(parts.items()))
    binding = f"{name} {'bind' if name.startswith(_PLURAL) else 'binds'}"
    fixed = sum(seconds for domain, seconds in parts.items() if domain.startswith(_FIXED))
    moved = 1 - fixed / whole
    if cost.placement.stages and moved < _NOTHING:
        return (
            f"NUMA placement does not matter here: {binding} ({longest / whole:.0%} of a token), "
            f"and nothing that a node decides takes more than {_NOTHING:.0%}."
        )
    if moved < _NOTHING:
        return (
            f"NUMA placement hardly matters here: {binding} ({longest / whole:.0%} of a token); "
            "another placement moves less than 3 % of it."
        )
    stays = [domain for domain in parts if domain.startswith(_FIXED)]
    rest = f"; {fixed / whole:.0%} stays wherever they lie ({stays[0]})" if fixed else ""
    start = f"{binding[0].upper()}{binding[1:]} ({longest / whole:.0%} of a token)"
    if not cost.placement.stages and nodes == 1:
        return f"{start}; there is one node with memory, so that only threads can be placed."
    what = "weights and cache" if cost.placement.uses_cpu else "GPUs"
    return f"{start}: placing {what} otherwise moves up to {moved:.0%} of it{rest}."
