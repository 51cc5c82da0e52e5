"""A figure as a page: what ``summary.md`` says, and the charts."""

from autofgl.report.charts.figures import chart_grid
from autofgl.report.markdown import markdown_sections
from autofgl.report.page import Section, page
from autofgl.reproduce.figure import Figure
from autofgl.reproduce.figure_charts import Lines, figure_files
from autofgl.reproduce.table_files import header


def as_html(figure: Figure, lines: Lines, summary: str) -> str:
    """The page.

    Args:
        figure: What is shown.
        lines: Its lines.
        summary: What ``summary.md`` says.
    """
    title, parts = markdown_sections(summary, intro="The paper's claim")
    files = figure_files(figure, lines).values()
    grid = chart_grid(chart for rows in files for row in rows for chart in row)
    if grid is not None:
        parts.insert(1, Section("Charts", grid))
    return page(title, header(title, f"{figure.source}. autofgl reproduce {figure.name}"), parts)
