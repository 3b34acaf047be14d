"""1.28 million photographs in 1,000 classes (ILSVRC 2012); 50,000 more for testing.

Russakovsky et al., ImageNet large scale visual recognition challenge, 2015. Its terms ask each
user to register, so it is never fetched: data.root is a folder with train/<wnid>/*.JPEG and
val/<wnid>/*.JPEG.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from selfadapt.data.folder import read_tree
from selfadapt.data.part import Found, Wanted
from selfadapt.data.sources import Size
from selfadapt.errors import BadInput

SIZE = Size(1_281_167, 50_000, (3, 224, 224), 1_000)


def read(wanted: Wanted) -> Found:
    found = read_tree(_tree(wanted.root))
    if found.test is None:
        raise BadInput(
            f"{wanted.root}: val/ has no class folders. Sort its images into val/<wnid>/ by the "
            "ground truth that comes with ImageNet's development kit."
        )
    return replace(found, name="imagenet")


def _tree(root: Path | None) -> Path:
    if root is None:
        raise BadInput(
            "ImageNet must be got by yourself (image-net.org asks you to register). Name the "
            "folder that holds its train/ and val/ with data.root."
        )
    for folder in (root, root / "imagenet", root / "ILSVRC" / "Data" / "CLS-LOC"):
        if (folder / "train").is_dir():
            return folder
    raise BadInput(f"{root} holds no ImageNet: there is no train/ in it. Name its folder.")
