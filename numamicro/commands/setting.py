"""``setting``: print how the machine is set, and what could not be read."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.options import add_format, checked_root
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.setting.words import Value

_EXAMPLES = """\
examples:
  python -m numamicro setting                           what is read here, and what is not and why
  sudo python -m numamicro setting                      with what only root may read
  python -m numamicro setting --bios-json bios.json     with the firmware's own settings (Redfish)
  python -m numamicro setting nps4.json                 how it was when that file was measured

No serial number, UUID, address or name of yours is read. Nothing is changed.
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "setting",
        help="print how the machine is set: firmware, kernel, devices",
        description="Print how the machine is set, and what could not be read and why.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", metavar="FILE", nargs="?", help="print that of this result file")
    command.add_argument(
        "--root", metavar="FOLDER", help="read a copy of /sys and /proc kept in FOLDER"
    )
    add_bios_json(command)
    add_format(command)
    command.set_defaults(run=run)


def add_bios_json(command: argparse.ArgumentParser) -> None:
    """Add the option that hands in the firmware's attributes."""
    command.add_argument(
        "--bios-json", metavar="FILE", help="the firmware's settings, as Redfish's Bios resource"
    )


def bios_attributes(name: str | None) -> dict[str, Value]:
    """Give the attributes of the file that was named; none where none was.

    Raises
    ------
    NumamicroError
        It is no such file.
    """
    from numamicro.setting import read_bios_json

    return {} if name is None else read_bios_json(Path(name))


def run(arguments: argparse.Namespace) -> int:
    """Read the setting and print it."""
    from numamicro.report.setting import render_setting, setting_to_json

    setting, reasons = _subject(arguments)
    if arguments.format == "json":
        import json

        output.emit(json.dumps(setting_to_json(setting, reasons), indent=1) + "\n")
    else:
        output.emit(output.printable(render_setting(setting, reasons, arguments.format)))
    return Exit.DONE


def _subject(arguments: argparse.Namespace) -> tuple[dict[str, Value], dict[str, str]]:
    """Give a setting with what the machine's shape tells of it, and why keys are missing."""
    from numamicro.setting import KEYS, facts_of, read_setting, unread

    added = bios_attributes(arguments.bios_json)
    if arguments.file is not None:
        if arguments.root is not None or added:
            raise NumamicroError("FILE was given with --root or --bios-json: choose one")
        from numamicro.file import read_matrix

        header = read_matrix(Path(arguments.file)).header
        known = {**facts_of(header.machine), **header.setting}
        silent = [key for key, value in known.items() if value is None]
        silent = [key for key in silent if not (key in KEYS and KEYS[key].or_none)]
        return known, dict.fromkeys(silent, "the file does not tell")
    from numamicro.topology import discover

    tree = checked_root(arguments.root or "/")
    setting = read_setting(tree) | added
    return {**facts_of(discover(tree)), **setting}, unread(setting, tree)
