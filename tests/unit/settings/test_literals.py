from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asdf.settings.literals import KINDS, parse_literal
from asdf.settings.mistakes import Complaint

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**1000), 2**1000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
literals = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.tuples(inner),
    max_leaves=20,
)


@given(literals)
@settings(deadline=None, max_examples=50)
def test_whatever_python_prints_is_read_back(value: object) -> None:
    read = parse_literal(repr(value))
    assert read == value
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("-3", -3),
        ("- -3", 3),
        ("+.5", 0.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("4 * 16000", 64000),
        ("16000*2 - 1", 31999),
        ("7 // 2 + 7 % 4", 6),
        ("1 / 4", 0.25),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("1 ** 5000", 1),
        ("-2 ** 2", -4),
        ("(1 + 2) * 3", 9),
        ("0, 1", (0, 1)),
        ("(0)", 0),
        ("(0,)", (0,)),
        ("[1, [2, ()], None]", [1, [2, ()], None]),
        ("'a' 'b'", "ab"),
        ("'a#b'", "a#b"),
        ("'''it's # no comment'''", "it's # no comment"),
        (r"r'\d'", r"\d"),
        (r"'C:\data'", r"C:\data"),
        (r"'it\'s'", "it's"),
        ("(1,  # one\n\n 2)", (1, 2)),
        ("\t3 ", 3),
    ],
)
def test_value(text: str, value: object) -> None:
    read = parse_literal(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"there is no value; {KINDS}"),
        ("adam", f"adam is a name; {KINDS}"),
        ("true", "true is written True"),
        ("null", "null is written None"),
        ("range(3)", f"range(...) is a call, and nothing in a config is run; {KINDS}"),
        ("network.max_epochs", f"network.max_epochs is a name; {KINDS}"),
        ("((1, 2)(3, 4))", "is a comma missing in (1, 2)(3, 4)?"),
        ("'a'.upper()", f"'a'.upper(...) is a call, and nothing in a config is run; {KINDS}"),
        ("'a'[0]", "is a comma missing in 'a'[0]?"),
        ("f'{1}'", f"f'{{1}}' is not a literal; {KINDS}"),
        ("b'a'", f"b'a' is not a literal; {KINDS}"),
        ("{'a': 1}", f"{{'a': 1}} is not a literal; {KINDS}"),
        ("1 if 2 else 3", f"1 if 2 else 3 is not a literal; {KINDS}"),
        ("('a' 'b')", "is a comma missing between 'a' and 'b'?"),
        ("(1, [2)", "the bracket ( is not closed"),
        ("'abc", "the quote ' is not closed on its line"),
        ("'''a\nb'''", "the quote ' is not closed on its line"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9**9**9", "the number is out of range"),
        ("2 ** 1024", "the number is out of range"),
        ("10.0 ** 400", "the number is out of range"),
        ("1e999", "the number is out of range"),
        ("(-8) ** 0.5", "a negative number has no real root"),
        ("'a' * 3", "arithmetic is only allowed on numbers"),
        ("True + 1", "arithmetic is only allowed on numbers"),
        ("-None", "arithmetic is only allowed on numbers"),
        ("(1,) + (2,)", "arithmetic is only allowed on numbers"),
        ("1j", f"1j is not a literal; {KINDS}"),
        ("-" * 100_000 + "1", "a value of more than 100000 characters is not allowed"),
    ],
)
def test_refused(text: str, problem: str) -> None:
    with pytest.raises(Complaint) as caught:
        parse_literal(text)
    assert caught.value.text == problem


@pytest.mark.parametrize(
    "text",
    [
        *("(1, 2]", "1 +", "(,)", "1, , 2", "1__0", "012", "**", "'\\x1'", "9" * 5000),
        *("= 3", "1;2", "(1 2)", "3\nimport os"),
        # As deep as no value is: Python's parser refuses it, or its result is no literal.
        *("(" * 300 + ")" * 300, "-" * 50_000 + "1", "+".join("1" * 30_000), "not " * 9000 + "1"),
    ],
)
def test_refused_by_python(text: str) -> None:
    with pytest.raises(
        Complaint, match=r"Python cannot read it|the number is out of range|is not a"
    ):
        parse_literal(text)


def test_a_complaint_names_a_missing_comma_and_the_line_within_the_value() -> None:
    with pytest.raises(Complaint, match=r"\(invalid syntax\. Perhaps you forgot a comma\?\)"):
        parse_literal("(1 2)")
    with pytest.raises(Complaint, match=r"\(.* at '−' \(U\+2212\)\)"):
        parse_literal("1e−4")
    with pytest.raises(Complaint) as caught:
        parse_literal("(1,\n 2,\n abc)")
    assert caught.value.line == 2
    # A long list is no deep one.
    assert parse_literal("(" + "-1, " * 5000 + ")") == (-1,) * 5000


WORDS = ["True", "None", "**", "not ", "lambda:"]
alphabet = st.sampled_from([*"()[]{},'\"#\\ \n\t=<.-+*/%0129eExjfrb_aT:", *WORDS])


@example("\rA")
@example("(1,\rA)")
@given(st.lists(alphabet, max_size=40).map("".join) | st.text(max_size=60))
@settings(deadline=None, max_examples=200)
def test_any_text_is_a_value_or_a_complaint(text: str) -> None:
    try:
        value = parse_literal(text)
    except Complaint as complaint:
        assert complaint.text
        assert 0 <= complaint.line <= text.count("\n")
    else:
        assert parse_literal(repr(value)) == value
