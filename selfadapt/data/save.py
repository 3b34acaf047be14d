"""A set written down so that `load` reads the same again: one .npz file with all of it, or, of
colour images of any number, Parquet files as the Hugging Face hub has them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image

from selfadapt.data import kept
from selfadapt.data.images import IN_MEMORY
from selfadapt.data.kept import Kept
from selfadapt.data.labelled import InMemory, Inputs, LabelledData, Rows
from selfadapt.data.part import Progress, no_progress
from selfadapt.errors import BadInput

_AT_ONCE = 256
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_BESIDE = "Name a folder instead of an .npz file: it is written image by image, as Parquet"


def write_npz(data: LabelledData, to: BinaryIO) -> None:
    """x, y, true, noisy (whether label or image was changed), ids, classes, x_test, y_test; and of
    the images that were changed what they were before, clean."""
    arrays: dict[str, Any] = {"x": _values(data), "y": data.labels, **_what_is_wrong(data)}
    if data.clean_inputs is not None and data.noisy_images is not None:
        before = replace(data, inputs=data.clean_inputs)
        arrays["clean"] = _values(before, np.flatnonzero(data.noisy_images))
    texts = {"ids": data.ids, "classes": data.classes, kept.NAME: _about(data).to_text()}
    arrays |= {name: np.array(text) for name, text in texts.items()}
    if data.test is not None:
        there = np.setdiff1d(np.arange(len(data.test)), [*data.test.quarantined])
        arrays |= {"x_test": _values(data.test, there), "y_test": data.test.labels[there]}
    np.savez(to, **arrays)


def _values(data: LabelledData, rows: Rows | None = None) -> NDArray[Any]:
    if not isinstance(data.inputs, InMemory):
        raise BadInput(
            f"{data.name} takes {data.inputs.nbytes / 2**30:.0f} GiB once its images are decoded, "
            f"more than the {IN_MEMORY / 2**30:.0f} GiB that are held in memory. {_BESIDE}"
        )
    if rows is None and data.quarantined:
        raise BadInput(
            f"{len(data.quarantined):,} images of {data.name} cannot be read, and have no place in "
            f"an array. {_BESIDE}; or repair or remove them"
        )
    values: NDArray[Any] = data.inputs.values.cpu().numpy()
    return values if rows is None else values[rows]


def check_parquet(data: LabelledData) -> None:
    """PNG files hold square pictures in colour, and are read again to the bit."""
    channels, *sides = (*data.inputs.shape, 0, 0)[:3]
    first = data.inputs.read(np.arange(1))[0]
    if first.dtype != torch.uint8 or channels != 3 or sides[0] != sides[1]:
        raise BadInput(
            f"the samples of {data.name} are not square colour images of 8 bits, but "
            f"{first.dtype} of shape {data.inputs.shape}: name an .npz file, not a folder"
        )


def write_parquet(data: LabelledData, to: BinaryIO, progress: Progress | None = None) -> None:
    """image, label, true, noisy, id, clean; read, encoded and written a few rows at a time. An
    image that cannot be read keeps its row, and is empty."""
    tell, wrong = progress or no_progress, _what_is_wrong(data)
    schema = _schema(data, wrong)
    with pq.ParquetWriter(to, schema, compression="zstd") as writer:
        for rows in np.split(np.arange(len(data)), range(_AT_ONCE, len(data), _AT_ONCE)):
            ids = [data.ids[row] for row in rows.tolist()]
            images = _encoded(data, data.inputs, rows)
            columns = {"image": images, "label": data.labels[rows], "id": ids}
            columns |= {name: values[rows] for name, values in wrong.items()}
            if "clean" in schema.names:
                columns["clean"] = _before(data, rows)
            writer.write_table(pa.table(columns, schema=schema))
            tell(int(rows[-1]) + 1, len(data), "writing images")


def _schema(data: LabelledData, wrong: Mapping[str, NDArray[Any]]) -> pa.Schema:
    """With what the `datasets` library wants to be told of the columns."""
    fields = {"image": _IMAGE, "label": pa.int64(), "id": pa.string()}
    features: dict[str, Any] = {"image": {"_type": "Image"}}
    features["label"] = {"names": list(data.classes), "_type": "ClassLabel"}
    features["id"] = {"dtype": "string", "_type": "Value"}
    for name, values in wrong.items():
        fields[name] = pa.from_numpy_dtype(values.dtype)
        features[name] = {"dtype": str(fields[name]), "_type": "Value"}
    if "true" in wrong:
        features["true"] = features["label"]
    if data.clean_inputs is not None:
        fields["clean"], features["clean"] = _IMAGE, features["image"]
    metadata = {
        "huggingface": json.dumps({"info": {"features": features}}),
        kept.NAME: _about(data).to_text(),
    }
    return pa.schema(list(fields.items()), metadata=metadata)


def _before(data: LabelledData, rows: Rows) -> list[dict[str, bytes | None] | None]:
    """The images that were changed, as they were; nothing for the others."""
    assert data.clean_inputs is not None
    assert data.noisy_images is not None
    changed = data.noisy_images[rows]
    images = iter(_encoded(data, data.clean_inputs, rows[changed]))
    return [next(images) if each else None for each in changed.tolist()]


def _encoded(data: LabelledData, inputs: Inputs, rows: Rows) -> list[dict[str, bytes | None]]:
    x, failed = inputs.read(rows)
    lost = failed.keys() | data.quarantined.keys()
    pairs = zip(rows.tolist(), x.cpu().numpy(), strict=True)
    return [{"bytes": b"" if r in lost else _png(image), "path": None} for r, image in pairs]


def _png(image: NDArray[np.uint8]) -> bytes:
    sink = io.BytesIO()
    Image.fromarray(image).save(sink, "png", compress_level=1)
    return sink.getvalue()


def _what_is_wrong(data: LabelledData) -> dict[str, NDArray[Any]]:
    """The true labels, and the rows whose label or image was changed, as far as they are known."""
    found: dict[str, NDArray[Any]] = {}
    images = data.noisy_images
    if data.true_labels is not None:
        changed = data.labels != data.true_labels
        found = {"true": data.true_labels, "noisy": changed if images is None else changed | images}
    return found if images is None else {**found, "noisy_images": images}


def _about(data: LabelledData) -> Kept:
    wrong = _what_is_wrong(data)
    return Kept(
        true="true" if "true" in wrong else None,
        noisy_images="noisy_images" if "noisy_images" in wrong else None,
        clean=None if data.clean_inputs is None else "clean",
        id_name=data.id_name,
        augment=data.augment,
        features=data.features,
        size=_side(data.inputs),
        corrupted=data.corrupted,
    )


def _side(inputs: Inputs) -> int | None:
    """Of square images; others are never scaled."""
    square = len(inputs.shape) == 3 and inputs.shape[1] == inputs.shape[2]
    return inputs.shape[1] if square else None
