"""What spoils or limits figures here: found by a rule, with its evidence and its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters, gravest first."""

    SPOILS = "spoils"  # figures come out wrong or unsteady
    LIMITS = "limits"  # something cannot be measured, or only in part
    REMARK = "remark"  # good to know when reading the figures


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader of the figures must know.

    Parameters
    ----------
    code : str
        Stable, for programs.
    severity : Severity
    what : str
        What is so, as the start of a sentence.
    evidence : str
        The file that tells, and what it says.
    effect : str
        What that does to the figures.
    remedy : str
        A command or another way out; empty where there is none.
    """

    code: str
    severity: Severity
    what: str
    evidence: str
    effect: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The finding in one line, without its evidence."""
        return f"{self.what}: {self.effect}" + (f"; {self.remedy}" if self.remedy else "")
