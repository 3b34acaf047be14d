"""The small scale on digits is run with the settings that noisy validation labels chose, as kept
under results/, and with no others."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from selfadapt import study, tables

ROOT = Path(__file__).resolve().parent.parent
# by the noise rate, from its authors; a variant of the table
NOT_CHOSEN = ("method.percentile of mentornet", "method.smoothing of erm")
Knobs = tuple[tuple[str, Any], ...]
Chosen = dict[tuple[str, str], dict[str, Any]]  # by method and augmentation


@pytest.fixture(scope="module")
def chosen() -> Chosen:
    """The tried settings with the best mean over all seeds; of equals the first."""
    kept = tables.rows(ROOT / "results" / "study" / "digits-settings.json")
    runs = {Path(row.path).name: row for row in kept}
    tried: dict[tuple[str, str], dict[Knobs, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in study.read("digits-settings").cells("small"):
        knobs = tuple(sorted((k, v) for k, v in cell.settings.items() if k.startswith("method.")))
        found = tables.value(runs[cell.name], "validation_accuracy")
        assert found is not None
        tried[_case(cell.settings)][knobs].append(found)
    return {
        case: dict(max(options, key=lambda knobs: round(statistics.fmean(options[knobs]), 9)))
        for case, options in tried.items()
    }


def _case(settings: Mapping[str, Any]) -> tuple[str, str]:
    return settings["method.name"], settings["data.augment"]


def unlike(settings: dict[str, Any], chosen: Chosen) -> list[str]:
    method = settings["method.name"]
    return [
        f"{name} of {method}: {settings.get(name)}, not {value}"
        for name, value in chosen[_case(settings)].items()
        if f"{name} of {method}" not in NOT_CHOSEN and settings.get(name) != value
    ]


def test_the_main_table_takes_what_was_chosen(chosen: Chosen) -> None:
    cells = study.read("cifar-noise").cells("small")
    plain = [
        c for c in cells if not c.labels.get("variant") and c.settings["corruption.rate"] == 0.4
    ]
    assert {cell.settings["method.name"] for cell in plain} == {method for method, _ in chosen}
    for cell in plain:
        assert not unlike(dict(cell.settings), chosen)


@pytest.mark.parametrize(
    "name", ["ablation", "accuracy-curves", "generalisation", "label-recovery", "sce"]
)
def test_so_do_the_others(name: str, chosen: Chosen) -> None:
    for cell in study.read(name).cells("small"):
        if cell.settings["method.name"] != "erm":
            assert not unlike(dict(cell.settings), chosen)
