"""Reading labelled data: `load` turns a file, a folder, arrays or a name into `LabelledData`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from selfadapt import corruption, signatures
from selfadapt.data import earlier_run
from selfadapt.data.build import build, check_settings
from selfadapt.data.corrupted import with_noise
from selfadapt.data.images import IN_MEMORY, ImageFiles, check_quarantine
from selfadapt.data.labelled import InMemory, Inputs, LabelledData, Rows
from selfadapt.data.part import Progress, Wanted
from selfadapt.data.read import is_name, read, read_test
from selfadapt.errors import BadInput

__all__ = [
    "IN_MEMORY",
    "ImageFiles",
    "InMemory",
    "Inputs",
    "LabelledData",
    "Rows",
    "check_quarantine",
    "corrupt",
    "load",
    "load_to_measure",
]


def load(
    source: Any,
    *,
    label: str | None = None,
    path: str | None = None,
    id: str | None = None,
    true: str | None = None,
    test: float | str | Path = 0.1,
    limit: int | None = None,
    size: int | None = None,
    without: list[str | int] | None = None,
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> LabelledData:
    """Labelled data with its test part.

    source: a folder of class folders (or with train/ and test/ in it), a .csv, .parquet or .npz
      file, a name (digits, cifar10, …, hf:owner/name), (x, y), {"x": …, "y": …}, a run's
      labels.parquet (its samples, with the corrected labels), or LabelledData, which is returned
      as it is.
    label, path, id, true: the columns with labels, images, ids and, only for measuring, true
      labels; found by their usual names if not given.
    test: the share to hold out where the source has no test part (0 for none), or a test set.
    limit: use only the first rows of the training part.
    size: the side of the square that images are scaled to.
    without: classes to leave out of training; those of the test part are kept apart, as samples
      that a model should not know (train.against=left_out).
    root: where named sets lie, and what paths in a table are relative to.
    """
    if isinstance(source, LabelledData):
        return source
    if (earlier := earlier_run.settings(source)) is not None:
        _refuse_settings(
            source, {"label": label, "path": path, "id": id, "true": true, "test": test}
        )
        _refuse_settings(source, {"limit": limit, "size": size, "without": without, "root": root})
        return _from_earlier_run(source, earlier, progress)
    asked = {"label": label, "path": path, "id": id, "true": true, "test": test, "limit": limit}
    return _read(source, asked | {"size": size, "without": without, "root": root}, progress)


def load_to_measure(
    source: Any, settings: Mapping[str, Any], progress: Progress | None = None
) -> LabelledData:
    """As `load`, for samples that nothing learns from: they may be of one class, and the test part
    is that of the source, if it has one."""
    bound = signatures.bind(load, "data", settings, skip=("progress",))
    return _read(source, bound | {"test": 0.0}, progress, several=False)


def _read(
    source: Any, asked: Mapping[str, Any], progress: Progress | None, several: bool = True
) -> LabelledData:
    test, limit, size, root = (asked[name] for name in ("test", "limit", "size", "root"))
    check_settings(test, limit, size, root)
    place = None if root is None else Path(root).expanduser()
    columns = {name: asked[name] for name in ("label", "path", "id", "true")}
    wanted = Wanted(**columns, root=place, progress=progress)
    found = read(source, wanted)
    beside = read_test(test, wanted, found.train) if isinstance(test, str | Path) else None
    again = lasting(source, {**asked, "root": place})
    without = asked["without"]
    return build(found, beside, test, limit, size, without, progress, again, several=several)


def corrupt(source: Any, name: str, *, seed: int = 1, **settings: Any) -> LabelledData:
    """What a run of this seed with `corruption.name` sees: the labels or images of the training
    part are corrupted, the present labels known as the true ones, the test part as it was.

    source: anything `load` takes, or what it returned.
    name, settings: of a corruption, as `selfadapt list` shows them: "uniform", rate=0.4.
    """
    data = load(source)
    bound = signatures.bind(corruption.resolve(name), "corruption", settings)
    told = [name, *(f"{key}={value}" for key, value in bound.items()), f"seed {seed}"]
    noisy = with_noise(data, name, seed, bound)
    if noisy is data:
        return data
    return replace(noisy, corrupted=(*noisy.corrupted, ", ".join(told)))


def _refuse_settings(source: Any, given: Mapping[str, Any]) -> None:
    """What would be ignored: the samples are read as that run read them."""
    for name, value in given.items():
        if value != inspect.signature(load).parameters[name].default:
            raise BadInput(
                f"data.{name}={str(value)!r} cannot be set for {source}: its samples are read as "
                "that run read them, by the settings it was made with"
            )


def _from_earlier_run(
    source: str | Path, settings: Mapping[str, Any], progress: Progress | None
) -> LabelledData:
    names = ("label", "path", "id", "true", "test", "limit", "size", "without", "root")
    again = {name: settings[name] for name in names if name in settings}
    data = load(settings["source"], **again, progress=progress)
    return replace(earlier_run.relabelled(data, source), source=lasting(source, {}))


def lasting(source: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that load this again from any folder; the source of arrays is None."""
    kept = {key: value for key, value in settings.items() if value is not None}
    for name in ("test", "root"):
        if name in kept:
            kept[name] = _lasting(kept[name])
    return {"source": _lasting(source), **kept}


def _lasting(source: Any) -> Any:
    """A path that means the same from any folder; None for arrays."""
    if isinstance(source, str | Path) and not is_name(source):
        return os.path.abspath(Path(source).expanduser())  # noqa: PTH100 - without the ".."
    return source if isinstance(source, str | float | int) else None
