import sys
import unicodedata

from clvlab.report import html, svg
from clvlab.report.html import Html

FACTS = "facts.html"


def test_all_text_is_escaped():
    nasty = "<img src=x onerror=alert(1)>"

    shown = html.card(FACTS, nasty, facts={nasty: nasty})

    assert "<img" not in shown
    assert "&lt;img" in shown


def test_text_that_looks_like_html_of_ours_is_escaped():
    forged = str(html.card(FACTS, facts={}))

    shown = html.card(FACTS, facts={"agent": forged})

    assert html.escape(forged) in shown
    assert Html("<b>ours</b>") in html.card(FACTS, facts={"agent": Html("<b>ours</b>")})


def test_every_character_that_is_invisible_or_reorders_a_line_is_named():
    hidden = {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        named = unicodedata.category(letter) in hidden and letter not in "\n\t"

        assert html.visible(letter) == (f"[U+{code:04X}]" if named else letter)


def test_hashes_are_code_and_absence_is_a_word():
    shown = html.render(FACTS, facts={"hash": f"it is sha256:{64 * '0'}, <b>", "nothing": None, "many": 1234567, "sure": True})

    assert f"it is <code>sha256:{64 * '0'}</code>, &lt;b&gt;" in shown
    assert '<span class="quiet">none</span>' in shown
    assert "<td>1,234,567</td>" in shown
    assert "<td>yes</td>" in shown


def test_pictures_are_hidden_where_their_style_is_taken_off():
    one, two = svg.picture("one", 10, svg.stretch(10), svg.stretch(10)), svg.picture("two", 10)
    hidden = '<span class="drawn" style="display:none">{}</span>'

    shown = html.card(FACTS, facts={"one": one, "two": two})

    assert all(hidden.format(picture) in shown for picture in (one, two))
    assert '<p class="untrusted">' in shown
    assert '<p class="untrusted">' not in html.card(FACTS, facts={"one": "no picture"})
