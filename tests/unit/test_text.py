"""Names that cannot harm a terminal, and messages of a bounded length."""

import unicodedata

import pytest

from asdf.text import (
    MESSAGE_LENGTH,
    and_more,
    csv_text,
    lines_and_more,
    message,
    p_value_text,
    printable,
    shorten,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07\x1b[31mred", r"\x1b]0;title\x07\x1b[31mred"),
        ("over\rwritten\b\x7f", r"over\rwritten\x08\x7f"),
        ("\x9b31m and \x85", r"\x9b31m and \x85"),
        ("abc\u202egnp.flac\u2066\u200f", r"abc\u202egnp.flac\u2066\u200f"),
        ("zero\u200bwidth\ufeff\u2028", r"zero\u200bwidth\ufeff\u2028"),
        ("\udcff\ud83d.flac", r"\udcff\ud83d.flac"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("a\0b", r"a\x00b"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable(f"é {text} é") == f"é {shown} é"


@pytest.mark.parametrize(
    "text", ["two\nlines\tof text", "äßЖ語 1 % → ±", "न\u200dप می\u200cخواهم", ""]
)
def test_text_stays_as_it_is(text):
    assert printable(text) == text


def test_a_field_of_a_line_has_no_newline_and_no_tab():
    assert printable("a\tb\nc\x1b", one_line=True) == r"a\tb\nc\x1b"


def test_no_control_character_of_unicode_is_left():
    every = "".join(map(chr, range(0x110000)))
    left = [letter for letter in printable(every) if unicodedata.category(letter) in ("Cc", "Cs")]
    assert left == ["\t", "\n"]
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not directions & {unicodedata.bidirectional(letter) for letter in printable(every)}


def test_a_long_message_says_how_much_of_it_is_left_out():
    text = "s" * 15_000 + "m" * 1_000_000 + "e" * 5_000
    shown = message(text)
    cut = "\n... 1,000,000 characters of this message are left out ...\n"
    assert shown == "s" * 15_000 + cut + "e" * 5_000
    assert message("x" * MESSAGE_LENGTH) == "x" * MESSAGE_LENGTH
    assert message("\x1b[2J") == r"\x1b[2J"


def test_the_bound_of_a_message_is_that_of_its_escaped_text():
    assert len(message("\x1b" * MESSAGE_LENGTH)) < MESSAGE_LENGTH + 100


def test_a_long_name_is_cut_in_the_middle():
    assert shorten("a" * 200) == "a" * 200
    assert shorten("a" * 150 + "b" * 150) == "a" * 100 + "…" + "b" * 99
    assert shorten("abcdef", 5) == "ab…ef" and shorten("abcdef", 4) == "ab…f"
    assert shorten("abcdef", 1) == "…" and shorten("abcdef", 2) == "a…"


def test_long_lists_end_with_how_many_more_there_are():
    names = list("abcdefghij")
    assert and_more(names, 3) == "a, b, c and 7 more"
    assert and_more(names, 10) == "a, b, c, d, e, f, g, h, i, j"
    assert and_more(["x"] * 12_345, 1) == "x and 12,344 more"
    assert and_more([], 3) == ""
    assert lines_and_more(names, 2) == "\n  a\n  b\n  ... and 8 more"
    assert lines_and_more(["a", "b"], 2, indent="    ") == "\n    a\n    b"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ('=HYPERLINK("http://x","y")', '\'=HYPERLINK("http://x","y")'),
        ("+1+1", "'+1+1"),
        ("-2+3.wav", "'-2+3.wav"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("a=b.wav", "a=b.wav"),
        ("-", "-"),
        ("", ""),
    ],
)
def test_a_cell_of_text_is_no_formula(text, cell):
    assert csv_text(text) == cell


def test_names_may_be_apart_by_something_else():
    assert and_more(["a, b", "c", "d"], 2, "; ") == "a, b; c and 1 more"


@pytest.mark.parametrize(
    ("p_value", "expected"),
    [
        (0.0, "< 0.001"),
        (0.0004, "< 0.001"),
        (0.0005, "= 0.001"),
        (0.0312, "= 0.031"),
        (1.0, "= 1.000"),
    ],
)
def test_no_probability_is_shown_as_zero(p_value, expected):
    assert p_value_text(p_value) == expected
