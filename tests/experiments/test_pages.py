"""Pages as Markdown and as HTML."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "report"))
from checker import check_page

from autofgl.experiments.pages import Document, Grid, PagePart
from autofgl.report.page import element, page

DOCUMENT = Document(
    "A title",
    PagePart("In short", ("Some **bold** and `a<b`.",)),
    [
        PagePart(
            "Part",
            (
                Grid(
                    ("name", "value"),
                    (("x | y", "−1.5 ± 0.2"), ("two\nlines", "")),
                ),
            ),
        )
    ],
    ("one", "two <i>"),
)


def test_a_document_as_markdown() -> None:
    assert DOCUMENT.markdown() == (
        "# A title\n\nSome **bold** and `a<b`.\n\n## Part\n\n"
        "| name | value |\n| --- | --- |\n| x \\| y | −1.5 ± 0.2 |\n| two lines |  |\n\n"
        "- one\n- two <i>\n"
    )


def test_a_document_as_html() -> None:
    parts = DOCUMENT.sections()
    assert [part.title for part in parts] == ["In short", "Part"]
    html = page(DOCUMENT.title, element("header"), parts)
    assert "<p>Some <strong>bold</strong> and <code>a&lt;b</code>.</p>" in html
    assert '<td class="number">−1.5 ± 0.2</td>' in html
    assert "x | y" in html
    assert "two lines" in html
    assert "<li>two &lt;i&gt;</li>" in html
    check_page(html)
