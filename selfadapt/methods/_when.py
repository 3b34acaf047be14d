"""A point of a run, said as a number of epochs or as a share of them."""

from __future__ import annotations

import math

from selfadapt.errors import BadInput

When = int | float


def checked(name: str, when: When) -> When:
    if not 0 <= when <= (1 if isinstance(when, float) else math.inf):
        raise BadInput(f"{name} is a number of epochs (60) or a share of them (0.3), got {when}")
    return when


def epoch_of(when: When, epochs: int) -> int:
    """The epoch, counted from 0."""
    return when if isinstance(when, int) else round(when * epochs)
