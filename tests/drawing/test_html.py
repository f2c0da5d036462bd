from clvlab.drawing import html


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
