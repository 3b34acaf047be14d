"""Files of a set too large for memory that could not be read, found while it is read."""

from __future__ import annotations

from collections.abc import Sequence

from selfadapt import distributed
from selfadapt.data import InMemory, check_quarantine
from selfadapt.data.feed import Feed
from selfadapt.engine.work import Progress, Show, Work


def share_unreadable(work: Work, progress: Progress) -> None:
    """Every process must call this at the same time, as the next one: each has met the unreadable
    files of its own rows only. New ones are told of; too many are an error."""
    parts = work.parts
    progress.unreadable = _shared(
        parts.train, progress.unreadable, parts.ids, "training", work.show
    )


def share_unreadable_test(work: Work, progress: Progress) -> None:
    feed, ids = work.parts.test, work.parts.test_ids
    if feed is not None and ids is not None:
        progress.unreadable_test = _shared(feed, progress.unreadable_test, ids, "test", work.show)


def _shared(
    feed: Feed, known: dict[str, str], ids: Sequence[str], what: str, show: Show
) -> dict[str, str]:
    if isinstance(feed.inputs, InMemory):
        return known
    bad = {int(row): why for row, why in known.items()}
    for found in distributed.from_all(feed.unreadable):
        bad |= found
    notes = check_quarantine(bad, len(ids), ids, what)
    if len(bad) > len(known):
        for note in notes:
            show({"note": note})
    return {str(row): why for row, why in sorted(bad.items())}
