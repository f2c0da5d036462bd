from clvlab.drawing import html, ink


def test_all_text_is_escaped():
    nasty = "<img src=x onerror=alert(1)>"

    shown = html.block(nasty, html.facts({nasty: nasty}), html.table([nasty], [[nasty]]), html.badge(nasty))

    assert "<img" not in shown


def test_text_that_looks_like_a_badge_is_escaped():
    forged = str(html.badge("pass"))

    for shown in (html.table(["agent"], [[forged]]), html.facts({"agent": forged})):
        assert "<span" not in shown
        assert html.escape(forged) in shown
    assert html.badge("pass") in html.table(["verdict"], [[html.badge("pass")]])


def test_pictures_are_hidden_where_their_style_is_taken_off():
    one, two = ink.picture("one", 10, ink.stretched(10), ink.stretched(10)), ink.picture("two", 10)
    hidden = '<span class="drawn" style="display:none">{}</span>'

    shown = html.block("card", one, "<p>between</p>", two)

    assert shown.endswith(f"{hidden.format(one)}<p>between</p>{hidden.format(two)}</div>")
    assert '<p class="untrusted">' in shown
    assert '<p class="untrusted">' not in html.block("card", "<p>no picture</p>")
