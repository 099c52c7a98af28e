"""Heat maps show their numbers."""

from asdf.metrics.results import Condition, Result
from asdf.report.plots import heat_map
from asdf.report.result_tables import ConditionTable


def condition(value: str, eer: float) -> Condition:
    return Condition("attack", value, Result(eer, 0.0, 0.0, 0.0, 0.0, 30, 30))


def test_a_heat_map_shows_its_numbers():
    first = {"A01": condition("A01", 0.01), "A02": condition("A02", 0.5)}
    second = {"A01": condition("A01", 0.2)}
    figure = heat_map(ConditionTable("attack", ["A01", "A02"], [first, second]), ["one", "two"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "20.00", "50.00"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["A01", "A02"]
