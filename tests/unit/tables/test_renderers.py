"""One table in each output: a mean over seeds, a mark, a count and a name that is cut."""

import json

from asdf.metrics.bootstrap import Interval
from asdf.tables.renderers import (
    as_csv,
    as_json,
    as_latex,
    as_lines,
    as_page,
    as_text,
    bounds_records,
    heat_step,
    records_of,
    table_csv,
)
from asdf.tables.table import Column, Table, Value, counts, rate, texts
from asdf.tasks.studies.over_seeds import Spread

SPREAD = Spread((0.04, 0.05), 0.045, 0.00707, Interval(0.045, 0.03, 0.06))
ALONE = Spread((0.04,), 0.04, None, Interval(0.04, 0.03, 0.05))
EERS = [
    Value.of_spread(SPREAD, is_best=True, remark=" (2 seeds)", paper_remark=" [2]"),
    Value.of_spread(ALONE, is_lowest=True),
    Value.of_spread(None),
]
TABLE = Table(
    ["first_system", "second", "third"],
    [
        counts("Trials", [1234, 5, 6]),
        (rate("dev_set", "dev", whole_name="dev_set", paper_mark=r"$^\dagger$"), EERS),
        texts("Scored", ["50 %", "whole", ""], is_left=True),
    ],
    "System",
    ["a note"],
    ["first", "second", "third"],
)


def test_text_has_deviations_and_no_marks_of_the_page():
    assert as_lines(TABLE) == [
        "System  Trials          dev  Scored",
        "first     1234  4.50 ± 0.71  50 %",
        "second       5         4.00  whole",
        "third        6            -",
    ]
    (block,) = as_text(TABLE)
    assert block.splitlines()[1] == "first     1234  4.50 ± 0.71    50 %"


def test_latex_has_an_interval_only_where_no_deviation_is_known():
    rows = [line for line in as_latex(TABLE).splitlines() if " & " in line]
    assert rows == [
        r"System & Trials & dev$^\dagger$ & Scored \\",
        r"first & 1234 & \textbf{4.50} $\pm$ 0.71 [2] & 50 \% \\",
        r"second & 5 & 4.00 (3.00--5.00) & whole \\",
        r"third & 6 & -- &  \\",
    ]


def test_the_page_has_all_digits_the_whole_names_and_the_intervals():
    page = as_page(TABLE, "a caption", "heat")
    assert [cell.text for cell in page.head] == ["System", "Trials", "dev", "Scored"]
    assert (page.head[2].value, page.rows[0][0].title) == ("dev_set", "first_system")
    first, second, third = (row[2] for row in page.rows)
    assert (first.text, first.value, first.mark, first.css) == ("4.50 ± 0.71", 4.5, "best", "best")
    assert (first.interval, first.remark) == ("3.00–6.00", " (2 seeds)")
    assert (second.mark, second.css, third.text) == ("lowest", "", "–")
    assert (page.rows[0][1].text, page.rows[0][1].value) == ("1,234", 1234)
    shaded = Table(["one"], [(rate("eer", is_shaded=True), [Value(0.045)])])
    assert as_page(shaded, "").rows[0][1].css == f"h{heat_step(0.045)}" == "h3"


def test_no_dash_stands_between_two_minus_signs():
    intervals = [Interval(-0.02, -0.035, -0.003), Interval(0.0, -0.01, 0.01)]
    values = [Value(one.value, {"trials": one}) for one in intervals]
    page = as_page(Table(["a", "b"], [(rate("change"), values)]), "")
    shown = [row[1].interval for row in page.rows]
    assert shown == ["−3.50 to −0.30", "−1.00 to 1.00"]


def test_csv_has_all_digits_and_no_formula():
    rows = [{"system": "=1+1", "eer": 0.1 + 0.2}, {"system": "net", "eer": None}, {}]
    assert as_csv(("system", "eer"), rows) == "system,eer\n'=1+1,0.30000000000000004\nnet,\n,\n"
    assert as_csv(("eer",), [{"eer": -1.5}], has_head=False) == "-1.5\n"


def test_records_have_what_a_row_has_and_whole_ones_every_key():
    eer = Column("eer", "EER", over={"trials": "95 %"})
    values = [Value(0.1, {"trials": Interval(0.1, 0.0, 0.2)}), Value()]
    grades = Column("grade", "grade").with_values([float("nan"), 2])
    table = Table(["a", "b"], [texts("kind", ["x", None]), (eer, values), grades], "system")
    first = {"system": "a", "kind": "x", "eer": 0.1, "eer_low": 0.0, "eer_high": 0.2, "grade": None}
    assert records_of(table) == [first, {"system": "b", "grade": 2}]
    whole = {"system": "b", "kind": None, "eer": None, "grade": 2}
    assert records_of(table, is_whole=True) == [first, whole]
    assert table_csv(table) == "system,kind,eer,eer_low,eer_high,grade\na,x,0.1,0.0,0.2,\nb,,,,,2\n"


def test_json_has_all_digits_and_bounds_by_metric():
    assert json.loads(as_json([{"eer": 0.1 + 0.2}])) == [{"eer": 0.30000000000000004}]
    assert as_json({"name": "é"}) == '{\n  "name": "é"\n}\n'
    assert bounds_records({"eer": SPREAD.interval}) == {"eer": {"low": 0.03, "high": 0.06}}
    drawn = {"eer": Interval(0.1, 0.0, 0.2, groups=7)}
    assert bounds_records(drawn) == {"eer": {"low": 0.0, "high": 0.2, "groups": 7}}
    assert bounds_records({}) is None
