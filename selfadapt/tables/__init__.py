"""From run directories to tables: means over seeds beside published numbers, as text, Markdown,
LaTeX, CSV and JSON. Only files are read, and no method is known. Pictures are in tables.figures,
which is imported by its own name, for it needs matplotlib."""

from __future__ import annotations

from selfadapt.tables.build import build, layout_for
from selfadapt.tables.cells import Cell, Head, Layout
from selfadapt.tables.confusion import Confusion
from selfadapt.tables.find import rows
from selfadapt.tables.kept import keep, read_environment
from selfadapt.tables.metrics import METRICS, Metric, curve, value
from selfadapt.tables.read import confusion_of
from selfadapt.tables.row import Row
from selfadapt.tables.table import Table

__all__ = [
    "METRICS",
    "Cell",
    "Confusion",
    "Head",
    "Layout",
    "Metric",
    "Row",
    "Table",
    "build",
    "confusion_of",
    "curve",
    "keep",
    "layout_for",
    "read_environment",
    "rows",
    "value",
]
