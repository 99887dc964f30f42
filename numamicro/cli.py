"""Arguments and dispatch, nothing else. Each command imports what it needs when it runs."""

from __future__ import annotations

import argparse
import errno
import signal
import traceback
from typing import TYPE_CHECKING, NoReturn

from numamicro import __version__, output
from numamicro.commands import COMMANDS
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Parser(argparse.ArgumentParser):
    """Argparse whose errors are one sentence with the way to help."""

    def error(self, message: str) -> NoReturn:
        raise NumamicroError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="numamicro",
        description="Measure what memory placement costs on this machine.",
        epilog="'numamicro COMMAND --help' explains a command with examples.",
    )
    parser.add_argument("--version", action="version", version=f"numamicro {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    output.open_standard_streams()
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.run(arguments)
        output.flush()
    except NumamicroError as error:
        output.say(str(error))
        return Exit.USAGE
    except BrokenPipeError:  # the reader went away (| head): nothing is wrong here
        return Exit.DONE
    except KeyboardInterrupt:
        return Exit.SIGNAL + signal.SIGINT
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            output.say(f"{error.strerror}: allow more (ulimit -n) or close other programs")
            return Exit.USAGE
        output.tell(traceback.format_exc())
        output.say("this is a fault of numamicro; please report it with the lines above")
        return Exit.INTERNAL
    return status
