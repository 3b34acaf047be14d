"""25,000 photographs of cats and dogs of any size, scaled to 64×64 by data.size=64.

Elson, Douceur, Howell and Saul, Asirra: a CAPTCHA that exploits interest-aligned manual image
categorization, 2007; the training part of Kaggle's contest of 2013. Its terms ask each user to
register, so it is never fetched: data.root is a folder with train/cat.0.jpg, train/dog.0.jpg, …, or
with Microsoft's PetImages/Cat and PetImages/Dog. It has no test part: data.test=0.2 holds out as
many samples as papers do, though not the same ones.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from selfadapt.data.folder import every_image, read_tree
from selfadapt.data.part import Found, Wanted
from selfadapt.data.sources import Size
from selfadapt.errors import BadInput

CLASSES = ("cat", "dog")

SIZE = Size(20_000, 5_000, (3, 64, 64), 2)


def read(wanted: Wanted) -> Found:
    if wanted.root is None:
        raise BadInput(
            "Dogs vs Cats must be got by yourself (Kaggle asks you to register). Name the folder "
            "that holds its train/cat.0.jpg, or PetImages/, with data.root."
        )
    for folder in (wanted.root, wanted.root / "dogs-vs-cats"):
        if (folder / "PetImages" / "Cat").is_dir():
            found = read_tree(folder / "PetImages")
            return replace(found, name="dogs-vs-cats")
        if (folder / "train" / "cat.0.jpg").is_file():
            return _flat(folder / "train")
    raise BadInput(
        f"{wanted.root} holds no Dogs vs Cats: there is neither train/cat.0.jpg nor "
        "PetImages/Cat in it. Name its folder."
    )


def _flat(folder: Path) -> Found:
    """The class is the first part of a file's name."""
    part = every_image(folder)
    names = np.array([Path(name).name.partition(".")[0] for name in part.ids], np.str_)
    strange = sorted(set(names.tolist()) - set(CLASSES))
    if strange:
        raise BadInput(f"{folder} also holds {strange[0]}.…, which is neither cat nor dog")
    return Found("dogs-vs-cats", replace(part, y=names), None, CLASSES, by_class=True)
