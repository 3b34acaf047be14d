"""Every error this package raises on purpose. A message says what was given, what was expected
and what to do; the command line prints it without a traceback and exits with its code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SelfAdaptError(Exception):
    """The base of the family: catch this to catch them all."""

    exit_code = 2


class BadInput(SelfAdaptError, ValueError):
    """Data, a setting or an argument that cannot be used as it is."""


class UnknownName(BadInput):
    """A method, net, source, corruption, setting or column that does not exist."""


class RunInUse(SelfAdaptError):
    """Another process is working in this run directory."""


class RunMismatch(BadInput):
    """The run directory holds a run with other settings."""


class DamagedFile(SelfAdaptError):
    """A file of ours whose content is not what was written."""


class NonFiniteLoss(SelfAdaptError, ArithmeticError):
    """Training ran into NaN or infinity."""


class CellsFailed(SelfAdaptError):
    """Some runs of a study could not be carried out; the others were."""

    exit_code = 1


class Interrupted(SelfAdaptError):
    """Training was asked to stop; everything up to this step is saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def unknown(kind: str, given: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that does not exist, with the nearest one that does."""
    names = sorted(known)
    near = difflib.get_close_matches(given.lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return UnknownName(f"unknown {kind} {given!r}.{hint} There are: {', '.join(names) or 'none'}.")
