"""One file a command: its arguments, and what it does with them. COMMANDS is the list.

A command imports what it needs when it runs: ``--help`` must not wait for numpy or the kernels.
"""

from __future__ import annotations

from numamicro.commands import (
    ab,
    advise,
    compare,
    doctor,
    export,
    import_,
    matrix,
    predict,
    report,
    setting,
    show,
    topology,
)

COMMANDS = (
    matrix,
    show,
    report,
    predict,
    advise,
    compare,
    ab,
    setting,
    export,
    import_,
    topology,
    doctor,
)
