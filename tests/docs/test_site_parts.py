"""The parts of the site: links to the glossary, pictures in the ink of their page, errors that lead somewhere, the order."""

import doctest
from pathlib import Path

import pytest

from docs.site import api, glossary, navigation, pictures

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
WORDS = {"pack": "term-pack", "content hash": "term-content-hash", "BACK": "term-back"}


def linked(html):
    return glossary.linked(html, WORDS, "g.html")


@pytest.mark.parametrize("module", [glossary, navigation, pictures], ids=lambda module: module.__name__)
def test_examples_of_the_site_hold(module):
    done = doctest.testmod(module)

    assert done.attempted > 0
    assert done.failed == 0


def test_the_first_use_is_a_link_and_the_second_is_not():
    assert linked("<p>A pack, and packs.</p>") == '<p>A <a class="term" href="g.html#term-pack">pack</a>, and packs.</p>'


@pytest.mark.parametrize(
    "html",
    [
        "<h2>A pack</h2>",
        "<pre><code><span>pack</span></code></pre>",
        "<p><code>pack</code></p>",
        '<p><a href="x.html">the <em>pack</em></a></p>',
        "<table><tr><th>pack</th></tr></table>",
        "<p>packing unpack pack-format my.pack /pack &amp; to pack</p>",
        '<svg><text class="x">pack</text></svg>',
        '<div class="nb-output"><div>a</div><p>pack</p></div>',
        "<p>It backs a side.</p>",
        '<img alt="a pack" src="x.png" /><!-- pack -->',
    ],
)
def test_what_is_no_running_text_stays_as_it_is(html):
    assert linked(html) == html


def test_text_after_an_output_is_linked_again():
    html = '<div class="nb-output"><div>pack</div></div><p>pack</p>'

    assert linked(html) == html.replace("<p>pack", '<p><a class="term" href="g.html#term-pack">pack</a>')


def test_a_name_in_capitals_is_linked_as_it_is_written():
    assert 'href="g.html#term-back">BACK</a>' in linked("<p>Back a side: BACK.</p>")


def test_the_longest_term_wins_and_keeps_its_letters():
    assert (
        linked("<li>Content hash &lt; x</li>")
        == '<li><a class="term" href="g.html#term-content-hash">Content hash</a> &lt; x</li>'
    )


def test_every_term_has_a_place_on_the_page_of_the_glossary():
    page, words = glossary.anchored(GLOSSARY), glossary.terms(GLOSSARY)

    assert len(words) > 60
    assert [place for place in words.values() if page.count(f'id="{place}"') != 1] == []


def test_a_word_means_what_the_row_that_begins_with_it_says():
    words = glossary.terms(GLOSSARY)

    assert words["market"] == words["market key"] != words["allowlist"]


def test_errors_that_a_docstring_names_in_one_line_are_links_each():
    html = '<code>(UnknownPackError, ValueError)</code>\n –\n <div class="doc-md-description">\n \n </div>'
    link = '<a href="errors.html#clvlab.errors.UnknownPackError"><code>UnknownPackError</code></a>'

    assert api.with_errors(html, ["UnknownPackError"]) == f"{link}, <code>ValueError</code>"


def test_a_picture_is_drawn_in_the_ink_of_its_page_and_says_what_it_shows(tmp_path):
    (tmp_path / "a-b.svg").write_text('<svg color="#808080" aria-label="x"><path id="p"/><use href="#p" clip="url(#p)"/></svg>')
    drawn = '<svg aria-label="A &amp; B"><path id="a-b-p"/><use href="#a-b-p" clip="url(#a-b-p)"/></svg>'

    shown = pictures.inlined('<p><img alt="A &amp; B" src="a-b.svg" /></p>', tmp_path)

    assert shown == f'<p><span class="picture">{drawn}</span></p>'


def test_every_page_is_in_the_navigation():
    home = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    parts = navigation.navigation(home, ROOT / "notebooks")
    paths = {
        page if isinstance(page, str) else next(iter(page.values())) for part in parts for page in next(iter(part.values()))
    }
    written = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in ROOT.glob("notebooks/*.ipynb")}

    assert paths == written | notebooks | {path for path, _ in api.pages()} | set(navigation.OUTSIDE.values())
