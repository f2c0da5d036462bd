from clvlab.drawing import axes as drawing


def test_the_drawing_escapes_its_name():
    shown = drawing.svg(lambda ax: ax.plot([1, 2]), '"><script>')

    assert "<script" not in shown
    assert shown.startswith('<svg role="img"')
