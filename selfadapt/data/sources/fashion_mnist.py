"""70,000 grey images of clothes of 28×28 pixels in 10 classes; 10,000 of them for testing.

Xiao, Rasul and Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking machine learning
algorithms, 2017. Read from idx files in data.root or from Debian's package dataset-fashion-mnist,
or fetched from the authors' repository (30 MB).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selfadapt.data import idx
from selfadapt.data.fetch import cache, fetch
from selfadapt.data.part import Found, Wanted
from selfadapt.data.sources import Size
from selfadapt.errors import BadInput

ADDRESS = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)

SIZE = Size(60_000, 10_000, (1, 28, 28), 10)


def read(wanted: Wanted) -> Found:
    given = [] if wanted.root is None else [wanted.root, wanted.root / "fashion-mnist"]
    for folder in (*given, DEBIAN):
        if (found := idx.read_folder(folder, CLASSES)) is not None:
            break
    else:
        found = _fetched(wanted)
    return replace(found, name="fashion-mnist", augment="crop_flip")


def _fetched(wanted: Wanted) -> Found:
    for file, md5 in MD5.items():
        fetch(f"{ADDRESS}/{file}", f"fashion-mnist/{file}", md5, wanted.progress, wanted.root)
    found = idx.read_folder(cache() / "fashion-mnist", CLASSES)
    if found is None:
        raise BadInput(f"{cache() / 'fashion-mnist'} lost its files while they were read")
    return found
