"""60,000 colour photographs of 32×32 pixels in 10 classes; 10,000 of them for testing.

Krizhevsky, Learning multiple layers of features from tiny images, 2009. Read from the binary
archive in data.root, or fetched from the author's page (162 MB).
"""

from __future__ import annotations

from selfadapt.data import cifar
from selfadapt.data.part import Found, Wanted
from selfadapt.data.sources import Size

SIZE = Size(50_000, 10_000, (3, 32, 32), 10)


def read(wanted: Wanted) -> Found:
    return cifar.read_named(cifar.CIFAR10, wanted)
