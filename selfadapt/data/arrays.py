"""Arrays as a source: an .npz file, or (x, y) and {"x": …, "y": …} in Python."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfadapt.data import kept, labels
from selfadapt.data.kept import Kept
from selfadapt.data.part import Found, Part, Wanted, nearest, numbered, row_ids
from selfadapt.errors import BadInput

_LAYOUTS = (
    "x is either features N×D, uint8 images N×H×W or N×H×W×C with C of 1 or 3, "
    "or float images N×C×H×W in [0, 1]"
)


def read_npz(path: Path, wanted: Wanted) -> Found:
    return read_arrays(open_npz(path), wanted, path.stem, str(path))


def open_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return {key: saved[key] for key in saved.files}
    except PermissionError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        # What numpy says of objects ends in advice to load them unsafely.
        reason = "it holds Python objects" if "pickle" in str(error) else error
        raise BadInput(
            f"{path} is not an .npz file of plain arrays ({reason}). Write it with "
            "numpy.savez(path, x=…, y=…); text must be a string array, not an object array."
        ) from None


def read_arrays(
    arrays: Mapping[str, Any], wanted: Wanted, name: str = "arrays", where: str = "arrays"
) -> Found:
    """Keys: x, y; perhaps x_test, y_test, ids, classes, and what `wanted` names instead; of a saved
    set those that it says itself."""
    about = _kept(arrays, where)
    keys = {"x": wanted.path or "x", "y": wanted.label or "y", "ids": wanted.id or "ids"}
    _check_keys((keys["x"], keys["y"], wanted.id, wanted.true), arrays, where)
    train = _part(arrays[keys["x"]], arrays[keys["y"]], where)
    train = _with_ids(train, arrays.get(keys["ids"]), keys["ids"], where)
    if (true := wanted.true or about.true) is not None:
        given = labels.clean(_plain(arrays[true]), f"{where}, {true}")
        train = replace(train, true=_as_many(given, train, where))
    if about.noisy_images is not None:
        noisy = _plain(arrays[about.noisy_images]).astype(bool)
        train = replace(train, noisy_images=noisy)
        if about.clean is not None:
            before = samples(arrays[about.clean], where)
            train = replace(train, clean=_with(before, noisy, np.array(train.x), where))
    if about.id_name is not None and wanted.id is None:
        train = replace(train, id_name=about.id_name)
    train = replace(train, features=about.features)
    test, classes = _test(arrays, train, where), _classes(arrays, where)
    return Found(name, train, test, classes, augment=about.augment, corrupted=about.corrupted)


def _with(
    before: NDArray[Any], noisy: NDArray[np.bool_], x: NDArray[Any], where: str
) -> NDArray[Any]:
    """x with the images that were corrupted as they were."""
    if noisy.shape != (len(x),) or before.shape != (noisy.sum(), *x.shape[1:]):
        raise BadInput(f"{where} does not hold one image for each that was corrupted")
    x[noisy] = before
    return x


def _kept(arrays: Mapping[str, Any], where: str) -> Kept:
    if kept.NAME not in arrays:
        return Kept()
    about = kept.from_text(str(_plain(arrays[kept.NAME])), where)
    _check_keys((about.true, about.noisy_images, about.clean), arrays, where)
    return about


def unlabelled(path: Path, wanted: Wanted) -> Part:
    arrays, key, where = open_npz(path), wanted.path or "x", str(path)
    _check_keys((key, wanted.id), arrays, where)
    x = samples(arrays[key], where)
    part = Part(x, np.zeros(len(x), np.int64), row_ids(len(x)))
    return _with_ids(part, arrays.get(wanted.id or "ids"), wanted.id or "ids", where)


def _check_keys(keys: Iterable[str | None], arrays: Mapping[str, Any], where: str) -> None:
    for key in keys:
        if key is not None and key not in arrays:
            hint = nearest([key], arrays)
            raise BadInput(
                f"{where} has no {key!r}.{hint} It has: {', '.join(arrays) or 'nothing'}."
            )


def _part(x: Any, y: Any, where: str) -> Part:
    inputs = samples(x, where)
    given = labels.clean(_plain(y), where)
    if len(given) != len(inputs):
        raise BadInput(f"{where}: {len(inputs):,} samples but {len(given):,} labels")
    return Part(inputs, given, row_ids(len(given)))


def _with_ids(part: Part, ids: Any, key: str, where: str) -> Part:
    if ids is None:
        return part
    texts = [str(i) for i in _plain(ids).tolist()]
    if len(texts) != len(part):
        raise BadInput(f"{where}: {len(part):,} samples but {len(texts):,} {key}")
    return Part(part.x, part.y, texts, "id" if key == "ids" else key)


def _as_many(true: NDArray[Any], part: Part, where: str) -> NDArray[Any]:
    if len(true) != len(part):
        raise BadInput(f"{where}: {len(part):,} samples but {len(true):,} true labels")
    return true


def _test(arrays: Mapping[str, Any], train: Part, where: str) -> Part | None:
    if ("x_test" in arrays) != ("y_test" in arrays):
        raise BadInput(f"{where}: a test part needs both x_test and y_test")
    if "x_test" not in arrays:
        return None
    test = _part(arrays["x_test"], arrays["y_test"], f"{where}, test part")
    here, there = np.shape(train.x)[1:], np.shape(test.x)[1:]
    if here != there:
        raise BadInput(f"{where}: training samples have shape {here}, test samples {there}")
    return test


def _classes(arrays: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    if "classes" not in arrays:
        return None
    names = tuple(str(name) for name in _plain(arrays["classes"]).tolist())
    if len(set(names)) != len(names):
        raise BadInput(f"{where}: two classes have the same name")
    return names


def _plain(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise BadInput(f"not an array: {error}") from None


def samples(values: Any, where: str) -> NDArray[Any]:
    """x as uint8 [N, H, W, C], float32 [N, C, H, W] or float32 [N, D]."""
    x = _plain(values)
    if x.dtype.kind not in "fiu":
        raise BadInput(f"{where}: x is of type {x.dtype}; {_LAYOUTS}")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise BadInput(f"{where}: x has shape {x.shape}; {_LAYOUTS}")
    if x.ndim == 2:
        return _finite(x, where)
    if x.dtype == np.uint8:
        return _pixels(x if x.ndim == 4 else x[..., None], where)
    return _float_images(x, where)


def _finite(x: NDArray[Any], where: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(x, np.float32)
    if len(bad := np.unique(np.nonzero(~np.isfinite(values))[0])):
        raise BadInput(
            f"{where}: x is not finite in {numbered(bad)} (NaN, infinite, or beyond float32). "
            "Repair or remove these samples."
        )
    return values


def _pixels(x: NDArray[Any], where: str) -> NDArray[np.uint8]:
    if x.shape[3] not in (1, 3):
        turned = " Transpose it with x.transpose(0, 2, 3, 1)." if x.shape[1] in (1, 3) else ""
        raise BadInput(f"{where}: x has shape {x.shape}; {_LAYOUTS}.{turned}")
    return np.ascontiguousarray(x)


def _float_images(x: NDArray[Any], where: str) -> NDArray[np.float32]:
    if x.ndim != 4 or x.dtype.kind != "f":
        raise BadInput(f"{where}: x has shape {x.shape} and type {x.dtype}; {_LAYOUTS}")
    if x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        raise BadInput(
            f"{where}: float images are N×C×H×W, but x has shape {x.shape}. "
            "Transpose it with x.transpose(0, 3, 1, 2)."
        )
    values = _finite(x, where)
    if len(values) and (values.min() < 0 or values.max() > 1):
        raise BadInput(
            f"{where}: float images must lie in [0, 1], but x goes from {values.min():g} to "
            f"{values.max():g}. Divide by 255, or undo the normalisation: it is done here."
        )
    return values
