"""What the columns of a table mean: labels, ids, and images or features."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from selfadapt.data import features, labels
from selfadapt.data.images import EXTENSIONS
from selfadapt.data.part import Encoded, Found, Part, Wanted, nearest, row_ids
from selfadapt.data.table import LABELS, Table, usual_label
from selfadapt.errors import BadInput, unknown

IMAGES = (
    *("image", "img", "path", "file", "filename", "file_name", "filepath", "file_path"),
    *("image_path", "img_path", "image_file"),
)


def found(name: str, table: Table, wanted: Wanted) -> Found:
    """The training part, with the class names that its label column declares."""
    _check_rows(table)
    kept, label = table.kept, _label_column(table, wanted)
    wanted = replace(wanted, true=wanted.true or kept.true)
    train, notes = unlabelled(table, wanted)
    train = replace(train, y=_labels(table, label))
    if wanted.true is not None:
        train = replace(train, true=_labels(table, _known(table, wanted.true)))
    if kept.noisy_images is not None:
        column = table.rows[_known(table, kept.noisy_images)]
        train = replace(train, noisy_images=np.array(column.to_pylist(), bool))
    if kept.clean is not None:
        pairs = zip(_images(table, _known(table, kept.clean)), train.x, strict=True)
        train = replace(train, clean=[before or now for before, now in pairs])
    if kept.id_name is not None and wanted.id is None:
        train = replace(train, id_name=kept.id_name)
    return Found(
        name,
        train,
        classes=table.classes.get(label),
        notes=notes,
        augment=kept.augment,
        size=kept.size,
        corrupted=kept.corrupted,
    )


def unlabelled(table: Table, wanted: Wanted) -> tuple[Part, tuple[str, ...]]:
    """The samples alone, as if all were of class 0; a column of labels is no feature of theirs."""
    _check_rows(table)
    taken = {wanted.true, usual_label(table.rows.column_names, wanted)}
    others = [name for name in table.rows.column_names if name not in taken]
    image = None if wanted.features else _image_column(table, wanted, others)
    ids, id_name = _ids(table, wanted, image)
    none = np.zeros(table.rows.num_rows, np.int64)
    if image is not None:
        return Part(_images(table, image), none, ids, id_name), ()
    if wanted.features:
        x, names, notes = features.by_name(table, wanted.features)
    else:
        x, names, notes = features.choose(table, [name for name in others if name != id_name])
    return Part(x, none, ids, id_name, features=names), notes


def _check_rows(table: Table) -> None:
    if table.rows.num_rows == 0:
        raise BadInput(f"{table.where} has no rows")


def _label_column(table: Table, wanted: Wanted) -> str:
    if (name := usual_label(table.rows.column_names, wanted)) is not None:
        return _known(table, name)
    names = table.rows.column_names
    raise BadInput(
        f"{table.where} has no column called {', '.join(LABELS)}. It has: {', '.join(names)}."
        f"{nearest(LABELS, names)} Name the one with the labels: data.label=NAME."
    )


def _known(table: Table, name: str) -> str:
    if name not in table.rows.column_names:
        raise unknown(f"column of {table.where}", name, table.rows.column_names)
    return name


def _labels(table: Table, name: str) -> NDArray[Any]:
    column, where = table.rows[name], f"{table.where}, column {name!r}"
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values = column.to_pylist()
    if table.where.lower().endswith(".csv") and pa.types.is_string(column.type):
        return labels.from_text([value or "" for value in values], where)
    return labels.clean(np.array(values, object), where)


def _image_column(table: Table, wanted: Wanted, others: list[str]) -> str | None:
    if wanted.path is not None:
        return _known(table, wanted.path)
    types = {name: table.rows.schema.field(name).type for name in others}
    images = [name for name in others if _is_image(types[name])]
    texts = [name for name in others if _is_text(types[name])]
    for name in IMAGES:
        if name in images or name in texts:
            return name
    if len(images) == 1:
        return images[0]
    # A run's own table of labels calls the path of an image its id.
    return "id" if "id" in texts and _is_file_name(table.rows["id"][0].as_py()) else None


def _is_image(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_file_name(value: str | None) -> bool:
    return value is not None and Path(value).suffix.lower() in EXTENSIONS


def _images(table: Table, name: str) -> Encoded:
    kind = table.rows.schema.field(name).type
    if not (_is_image(kind) or _is_text(kind)):
        raise BadInput(
            f"{table.where}: column {name!r} is of type {kind}; images are paths, encoded bytes, "
            "or a struct of bytes and path"
        )
    # Chunk by chunk: joined, more than 2 GiB of images overflow Arrow's offsets.
    chunks = table.rows[name].iterchunks()
    items = [item for chunk in chunks for item in _encoded(chunk, kind, table.folder)]
    _check_some_exist(items, table)
    return items


def _encoded(chunk: Any, kind: pa.DataType, folder: Path) -> list[str | bytes]:
    nothing = [None] * len(chunk)
    if _is_text(kind):
        both = zip(nothing, chunk.to_pylist(), strict=True)
    elif pa.types.is_struct(kind):
        both = zip(chunk.field("bytes").to_pylist(), _paths(chunk) or nothing, strict=True)
    else:
        both = zip(chunk.to_pylist(), nothing, strict=True)
    return [_item(content, path, folder) for content, path in both]


def _paths(chunk: Any) -> list[str | None]:
    has_paths = chunk.type.get_field_index("path") >= 0
    return chunk.field("path").to_pylist() if has_paths else []


def _item(content: bytes | None, path: str | None, folder: Path) -> str | bytes:
    """An empty image is found out when it is read, and quarantined."""
    if content is None and path:
        return str(folder / path)
    return content or b""


def _check_some_exist(items: Encoded, table: Table) -> None:
    first = [item for item in items[:20] if isinstance(item, str)]
    if first and len(first) == len(items[:20]) and not any(Path(item).is_file() for item in first):
        raise BadInput(
            f"{table.where}: none of the first {len(first)} files exists; the first is "
            f"{first[0]!r}. Paths are taken relative to {str(table.folder)!r}; "
            f"set data.root to the folder they start from.{features.instead(table)}"
        )


def _ids(table: Table, wanted: Wanted, image: str | None) -> tuple[list[str], str]:
    """The id column; else the images' paths; else row numbers."""
    names = table.rows.column_names
    name = _known(table, wanted.id) if wanted.id is not None else "id" if "id" in names else None
    if name is not None:
        return _texts(table, name), name
    if image is not None and _is_text(table.rows.schema.field(image).type):
        return _texts(table, image), "path"
    if image is not None and pa.types.is_struct(table.rows.schema.field(image).type):
        chunks = table.rows[image].iterchunks()
        texts = [path for chunk in chunks for path in _paths(chunk) if path]
        if texts and len(set(texts)) == table.rows.num_rows:
            return texts, "path"
    return row_ids(table.rows.num_rows), "row"


def _texts(table: Table, name: str) -> list[str]:
    values = table.rows[name].to_pylist()
    if None in values or "" in values:
        row = next(i for i, value in enumerate(values) if value in (None, ""))
        raise BadInput(f"{table.where}: column {name!r} is empty in row {row}")
    return [str(value) for value in values]


def test_part(table: Table, wanted: Wanted, train: Part) -> Part:
    """The test part beside a training part: its features are those of the same names, and it is
    measured with its true labels where it has them. It may lack the noisy ones."""
    wanted = replace(wanted, features=train.features)
    samples_only, _ = unlabelled(table, wanted)
    named = (name for name in (wanted.true, wanted.label) if name in table.rows.column_names)
    label = next(named, None) or _label_column(table, replace(wanted, label=None))
    return replace(samples_only, y=_labels(table, label))
