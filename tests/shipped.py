"""The recipes that come with the package, read once for all tests of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from selfadapt import signatures, study
from selfadapt.engine.plan import Plan
from selfadapt.study import Cell, Recipe, Scale

SETS = ("cifar10", "cifar100")
# of the study's schedule, but for the main table's rows of protocol own
SELECTIVE = {"sat_selective", "deep_gamblers", "selectivenet"}  # have a table of their own
LABEL_NOISE = ("cifar-noise", "sce", "ablation", "label-recovery", "human-labels")


@functools.cache
def recipe(name: str) -> Recipe:
    return study.read(name)


@functools.cache
def cells(name: str, scale: Scale = "paper") -> list[Cell]:
    return recipe(name).cells(scale)


@functools.cache
def described(name: str, scale: Scale) -> list[dict[str, Any]]:
    """Settings and labels of a recipe's cells, whatever their seed."""
    every = [cell.settings | cell.labels for cell in cells(name, scale)]
    return list({json.dumps(one, sort_keys=True): one for one in every}.values())


def known(name: str, wanted: Mapping[str, Any], scale: Scale = "paper") -> list[dict[str, Any]]:
    """Those that have what is wanted: at least one."""
    found = [one for one in described(name, scale) if _has(one, wanted)]
    assert found, f"{name} has no cell with {wanted}"
    return found


def _has(one: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in one and one[name] == value for name, value in wanted.items())


def plan_of(settings: Mapping[str, Any]) -> Plan:
    train = {k.removeprefix("train."): v for k, v in settings.items() if k.startswith("train.")}
    return Plan(**signatures.bind(Plan, "train", train))
