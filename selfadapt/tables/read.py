"""From one run directory to a row. Nothing but its files is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfadapt import recipe
from selfadapt.errors import DamagedFile
from selfadapt.rundir import RunDir
from selfadapt.tables.confusion import Confusion, read_confusion
from selfadapt.tables.row import Curve, Row


def read_run(path: Path) -> Row:
    files = RunDir(path)
    if files.status() == "new":  # its own part has not begun, for its stages come first
        return Row(path=str(path), done=False, seed=None, settings={})
    about = files.read_json(files.run_file)
    settings = about.get("settings")
    if not isinstance(settings, Mapping) or not isinstance(settings.get("seed"), int):
        raise DamagedFile(f"{files.run_file} does not say with which settings and seed it ran")
    done = files.status() == "done"
    result = files.read_json(files.result_file) if done else {}
    log = _columns(files)
    if done:
        _check_log(files, log, result)
    return Row(
        path=str(path),
        done=done,
        seed=settings["seed"],
        settings=_settings(settings),
        results={k: v for k, v in result.items() if isinstance(v, int | float | str)},
        last={name: values[-1] for name, values in log.items()},
        log=log,
        about=_about(about),
    )


def _settings(nested: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe calls the source of its data data.name."""
    flat = recipe.flatten({table: nested.get(table, {}) for table in recipe.TABLES})
    return {"data.name": flat["data.source"], **flat} if "data.source" in flat else flat


def _about(run: Mapping[str, Any]) -> dict[str, Any]:
    data, resolved = run.get("data") or {}, run.get("resolved") or {}
    return {
        "created": run.get("created"),
        "commit": run.get("commit"),
        "machine": {
            **(run.get("machine") or {}),
            **{name: resolved.get(name) for name in ("device", "precision", "threads")},
        },
        "noise": run.get("noise") or {},
        "samples": data.get("samples"),
        "classes": data.get("classes") or [],
    }


def _columns(files: RunDir) -> dict[str, Curve]:
    lines = files.log()
    if not all(isinstance(line, dict) for line in lines):
        raise DamagedFile(f"{files.log_file} holds a line that is not an epoch's")
    names = dict.fromkeys(name for line in lines for name in line)
    return {name: [_number(line.get(name)) for line in lines] for name in names}


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) else None


def _check_log(files: RunDir, log: Mapping[str, Curve], result: Mapping[str, Any]) -> None:
    lines, epochs = len(log.get("epoch", ())), result.get("epochs")
    if epochs is not None and lines < epochs:
        raise DamagedFile(
            f"{files.log_file} holds {lines} of the {epochs} epochs of a finished run: put it back "
            f"from a copy, or remove {files.result_file} and give the run's command again"
        )


def confusion_of(row: Row) -> Confusion | None:
    """What became of a run's labels; None where their truth is not known, or was not kept."""
    if row.kept_confusion is not None:
        return row.kept_confusion
    files = RunDir(row.path)
    if not row.done or files.status() != "done":
        return None
    return read_confusion(files.labels_file, row.about.get("classes", []))
