"""How pages look: the style sheet, and the part of it that a drawing takes along."""

from importlib.resources import files

from autofgl.report.markup import Safe


def read(name: str) -> Safe:
    """A file of this package, which is ours and needs no escaping."""
    return Safe(files("autofgl.report").joinpath(name).read_text("utf-8"))


#: Colours, lines and marks, also for charts as files of their own.
CHART_STYLE = read("chart.css")
#: The whole style of a page but for drawings of networks.
STYLE = Safe(CHART_STYLE + read("style.css"))
#: For a network's drawing as a file of its own.
NETWORK_STYLE = read("network.css")
