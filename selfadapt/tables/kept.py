"""Rows as JSON, to be committed: what tables and figures need, without the run directories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from selfadapt.errors import BadInput, DamagedFile
from selfadapt.tables import groups, metrics
from selfadapt.tables.confusion import Confusion
from selfadapt.tables.read import confusion_of
from selfadapt.tables.row import Row

FORMAT = 1
_DIGITS = 5
_NOISE = ("error_rate", "noisy_images", "fingerprint", "fingerprint_images")


def keep(
    rows: Sequence[Row],
    figures: Iterable[Mapping[str, Any]] = (),
    environment: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The finished runs: settings, seed, commit, machine, noise and results, and what these
    [[figure]] tables draw. `environment` says the command, scale and recipe; date, commits and
    machines are those of the runs, so that keeping twice gives the same file."""
    done = [row for row in rows if row.done]
    if not done:
        raise BadInput(f"none of these {len(rows)} runs is finished, so there is nothing to keep")
    figures = list(figures)
    columns = [y for spec in figures if spec["kind"] == "curves" for y in spec["y"]]
    matrices = any(spec["kind"] == "matrix" for spec in figures)
    varying = groups.varying(done)
    machines = _distinct(row.about.get("machine") for row in done)
    return {
        "format": FORMAT,
        "environment": {
            **_without_places(environment or {}),
            "date": max(str(row.about.get("created"))[:10] for row in done),
            "commits": _distinct(row.about.get("commit") for row in done),
            "machines": machines,
        },
        "settings": {k: v for k, v in _settings(done[0]).items() if k not in varying},
        "runs": [
            {
                **_run(row, varying, metrics.logged(columns), matrices),
                "machine": machines.index(row.about.get("machine")),
            }
            for row in done
        ],
    }


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({groups.identity(value): value for value in values}.values())


def _run(
    row: Row, varying: Sequence[str], columns: Sequence[str], matrices: bool
) -> dict[str, Any]:
    noise = row.about.get("noise", {})
    confusion = confusion_of(row) if matrices else None
    return {
        "name": Path(row.path).name,
        "seed": row.seed,
        "labels": dict(row.labels),
        "settings": {k: v for k, v in _settings(row).items() if k in varying},
        "created": row.about.get("created"),
        "commit": row.about.get("commit"),
        "samples": row.about.get("samples"),
        "noise": {name: noise.get(name) for name in _NOISE},
        "results": dict(row.results),
        "last": {name: _rounded(value) for name, value in row.last.items()},
        "log": {name: [*map(_rounded, row.log[name])] for name in columns if name in row.log},
        "confusion": None if confusion is None else _confusion_out(confusion),
    }


def _settings(row: Row) -> dict[str, Any]:
    return {k: v for k, v in _without_places(row.settings).items() if k != "data.root"}


def _without_places(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A path on one machine is nobody else's: only its name is kept."""
    return {
        name: Path(value).name if isinstance(value, str) and value.startswith("/") else value
        for name, value in settings.items()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _confusion_out(confusion: Confusion) -> dict[str, Any]:
    weights = confusion.weights
    return {
        "classes": list(confusion.classes),
        "counts": confusion.counts.tolist(),
        "weights": None
        if weights is None
        else [[None if np.isnan(w) else _rounded(w) for w in line] for line in weights.tolist()],
    }


def _confusion_in(kept: Mapping[str, Any] | None) -> Confusion | None:
    if kept is None:
        return None
    weights = None if kept["weights"] is None else np.array(kept["weights"], np.float64)
    counts = np.array(kept["counts"], np.int64)
    return Confusion(tuple(kept["classes"]), counts, weights)


def read_environment(path: Path) -> dict[str, Any]:
    """With which command, at which scale, when and where the runs of this file were made."""
    environment: dict[str, Any] = _content(path)["environment"]
    return environment


def read_kept(path: Path) -> list[Row]:
    content = _content(path)
    try:
        machines = content["environment"]["machines"]
        return [_row(run, content["settings"], machines) for run in content["runs"]]
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DamagedFile(f"{path} is not what `keep` writes: {error!r}") from None


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"there is no {path}") from None
    except ValueError as error:
        raise DamagedFile(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict) or "runs" not in content or "environment" not in content:
        raise BadInput(f"{path} holds no kept runs: name run directories, or what was kept of them")
    if content.get("format") != FORMAT:
        raise BadInput(f"{path} has format {content.get('format')!r}; this version reads {FORMAT}")
    return content


def _row(run: Mapping[str, Any], settings: Mapping[str, Any], machines: Sequence[Any]) -> Row:
    return Row(
        path=run["name"],
        done=True,
        seed=run["seed"],
        settings={**settings, **run["settings"]},
        labels=run["labels"],
        results=run["results"],
        last=run["last"],
        log=run["log"],
        about={
            **{name: run[name] for name in ("created", "commit", "samples", "noise")},
            "machine": machines[run["machine"]],
        },
        kept_confusion=_confusion_in(run["confusion"]),
    )
