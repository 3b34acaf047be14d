"""What a saved set knows about itself beyond its columns: one line of JSON in the file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import get_args

from selfadapt.data.labelled import Augment
from selfadapt.errors import BadInput

NAME = "selfadapt"  # of the array of an .npz, or of the metadata of a Parquet file


@dataclass(frozen=True)
class Kept:
    """The defaults are those of a file that somebody else wrote."""

    true: str | None = None  # the column of true labels
    noisy_images: str | None = None  # the column that says whose pixels were changed
    clean: str | None = None  # the images of those, before
    id_name: str | None = None  # as in LabelledData
    augment: Augment = "crop_flip"
    features: tuple[str, ...] | None = None
    size: int | None = None  # the side that images were scaled to
    corrupted: tuple[str, ...] = ()  # as in LabelledData

    def to_text(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False)


def from_text(text: str, where: str) -> Kept:
    try:
        found = json.loads(text)
        features = found.pop("features")
        kept = Kept(
            **{**found, "corrupted": tuple(found["corrupted"])},
            features=None if features is None else tuple(features),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{where}: {NAME!r} is not what `selfadapt` writes there: {error}") from None
    if kept.augment not in get_args(Augment):
        raise BadInput(f"{where}: {NAME!r} names an augmentation {kept.augment!r} there is not")
    return kept
