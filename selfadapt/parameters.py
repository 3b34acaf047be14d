"""Kinds of options that several commands take."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Sets = Annotated[list[str] | None, Parameter(name="--set", negative="")]  # may be repeated
Several = Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)]
Flag = Parameter(negative="")
