"""Tables as data and as HTML: texts are escaped, numbers are aligned and keep their digits."""

import pytest
from jinja2 import UndefinedError

from asdf.report.html_page import render
from asdf.report.result_tables import Literature
from asdf.tables.renderers import Cell, PageTable, count_cell, name_cell


def as_html(table: PageTable) -> str:
    """The table as the page has it, by the template of one that shows nothing else."""
    page = render("literature.html", literature=Literature(table))
    return page[page.index("<div") :].strip()


def test_a_table_escapes_its_texts_and_aligns_its_numbers():
    rows = [[Cell("1.50", 1.5)], [Cell("–")]]
    assert as_html(PageTable("<t>", [Cell("n")], rows)) == (
        '<div class="scroll" tabindex="0" role="region" aria-label="&lt;t&gt;"><table data-tools>'
        "<caption>&lt;t&gt;</caption>"
        '<thead><tr><th scope="col" class="n">n</th></tr></thead><tbody>'
        '<tr><th scope="row" class="n" data-value="1.5">1.50</th></tr>\n'
        '<tr><th scope="row" class="n">–</th></tr>\n'
        "</tbody></table></div>"
    )


def test_a_cell_has_its_marks_behind_its_text():
    best = Cell("1.0", 1.0, "best", mark="best", remark=", in bf16", interval="0–2")
    lowest = Cell("<b>", title='a"b', mark="lowest")
    html = as_html(PageTable("t", [], [[Cell("a"), best, lowest]], "metrics"))
    assert '<table class="metrics" data-tools>' in html
    assert (
        '<td class="best n" data-value="1.0">1.0 <span class="mark">best</span>, in bf16'
        '<span class="interval"> 0–2</span></td>'
    ) in html
    assert ('<td title="a&#34;b">&lt;b&gt; <span class="mark soft">lowest</span></td></tr>') in html


def test_a_number_keeps_its_digits_and_a_cut_name_the_whole():
    assert count_cell(1234567) == Cell("1,234,567", 1234567)
    html = as_html(PageTable("t", [], [[Cell("a"), Cell("0.33", 1 / 3)]]))
    assert '<td class="n" data-value="0.3333333333333333">0.33</td>' in html
    assert name_cell("a long name", "name") == Cell("name", "a long name", title="a long name")
    assert name_cell("name", "name") == Cell("name")


def test_a_column_is_of_numbers_if_any_of_its_cells_is():
    rows = [[Cell("a"), Cell("–"), Cell("2")], [Cell("b"), Cell("1", 1), Cell("3", "3")]]
    assert PageTable("t", [], rows).number_columns == {1}


def test_a_template_without_its_data_is_an_error():
    with pytest.raises(UndefinedError, match="'literature' is undefined"):
        render("literature.html")
