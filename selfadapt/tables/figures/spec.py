"""A recipe's [[figure]], checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from selfadapt import errors
from selfadapt.errors import BadInput
from selfadapt.tables import groups, metrics
from selfadapt.tables.row import Row

KINDS = ("curves", "lines", "matrix")
MATRICES = ("recovered", "weight")


@dataclass(frozen=True)
class Spec:
    """panels and lines: settings or labels, by whose values runs go to panels and to lines in
    them; y: metrics; x: a setting, of kind lines."""

    name: str
    kind: str
    y: Sequence[str]
    panels: Sequence[str] = ()
    lines: Sequence[str] = ()
    x: str = ""
    log_x: bool = False
    title: str = ""


def checked(given: Mapping[str, Any], rows: Sequence[Row]) -> Spec:
    known = {field.name for field in fields(Spec)}
    for name in given:
        if name not in known:
            raise errors.unknown("key of a figure", name, known)
    for name in ("name", "kind", "y"):
        if not given.get(name):
            raise BadInput(f"a figure needs a {name}: {dict(given)!r}")
    spec = Spec(**given)
    if spec.kind not in KINDS:
        raise errors.unknown("kind of figure", spec.kind, KINDS)
    if (spec.kind == "lines") != bool(spec.x):
        raise BadInput(f"figure {spec.name}: x is for kind lines, and needed there")
    groups.check_keys([*spec.panels, *spec.lines, *filter(None, [spec.x])], rows)
    if spec.kind == "matrix":
        for name in spec.y:
            if name not in MATRICES:
                raise errors.unknown("matrix", name, MATRICES)
    else:
        metrics.check(spec.y, rows)
    return spec
