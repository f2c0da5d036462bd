"""No folder grows past its budget, and a budget follows its folder down."""

import pytest

from tests.architecture import figures


@pytest.mark.parametrize("kind", ["lines", "files"])
def test_every_folder_is_within_its_budget(kind):
    assert figures.misfits(kind, figures.sizes()[kind], figures.budget(kind)) == []


@pytest.mark.parametrize(
    ("figure", "bound", "says"),
    [(100, 100, None), (100, 103, None), (103, 100, "is 103, its bound 100"), (100, 104, "lower it to 100"),
     (10, 11, "lower it to 10"), (0, 1, "lower it to 0"), (100, None, "has no bound"), (None, 100, "delete its line")],
)  # fmt: skip
def test_a_misfit_names_folder_figure_and_bound(figure, bound, says):
    measured, bounds = ({"clvlab/x": number} if number is not None else {} for number in (figure, bound))

    sentences = figures.misfits("lines", measured, bounds)

    assert [("clvlab/x" in text, says in text) for text in sentences] == ([(True, True)] if says else [])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""About."""\n\nimport os\nfrom a import (\n    b,\n)\n', 0),
        ("# why\nx = 1  # what\n\n\ny = (\n    # no\n    2,\n)\n", 4),
        ('def f():\n    """Say.\n\n    More.\n    """\n    import os\n    return """a\n\n    b"""\n', 3),
        ('x = 1\n"""What x is."""\nz = f"""{x}\n\nhere"""\n', 3),
    ],
)
def test_blanks_docstrings_comments_and_imports_are_no_code(tmp_path, text, lines):
    path = tmp_path / "module.py"
    path.write_text(text)

    assert figures.code_lines(path) == lines
