"""A part of a page."""

from typing import NamedTuple

from autofgl.report.markup import Content


class Section(NamedTuple):
    """A heading and what stands below it."""

    title: str
    body: Content
