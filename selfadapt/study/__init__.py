"""A table or figure of the paper as data: one TOML file says what is run, at both scales, and what
was published. Nothing here runs anything."""

from __future__ import annotations

from selfadapt.study.read import names, read
from selfadapt.study.recipe import SCALES, Cell, Expectation, Recipe, Scale, matches

__all__ = ["SCALES", "Cell", "Expectation", "Recipe", "Scale", "matches", "names", "read"]
