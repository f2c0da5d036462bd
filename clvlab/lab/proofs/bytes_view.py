"""The exact bytes of a line: offsets, hexadecimal, and what can be read of them."""

from __future__ import annotations

from clvlab.drawing import html

_ROW = 16
MOST_BYTES = 1024  # of one line on the screen


def byte_rows(text: bytes, first_byte: int) -> list[tuple[str, str, str]]:
    """Return rows of sixteen bytes: (offset in the file, hexadecimal, characters); a dot is no printable ASCII.

    Examples
    --------
    >>> byte_rows(b'{"a"}' + bytes([10]), 32)
    [('00000020', '7b 22 61 22 7d 0a', '{"a"}.')]
    """
    return [
        (
            f"{first_byte + at:08x}",
            text[at : at + _ROW].hex(" "),
            "".join(chr(byte) if 32 <= byte < 127 else "." for byte in text[at : at + _ROW]),
        )
        for at in range(0, len(text), _ROW)
    ]


def bytes_html(text: bytes, first_byte: int) -> str:
    """Show the bytes of a line, the first of which stands at an offset of its file."""
    rows = byte_rows(text[:MOST_BYTES], first_byte)
    shown = "\n".join(f"{offset}  {digits:<{3 * _ROW - 1}}  {letters}" for offset, digits, letters in rows)
    rest = len(text) - MOST_BYTES
    more = f'<p class="quiet">and {rest:,} bytes more</p>' if rest > 0 else ""
    return (
        f'<pre class="bytes" tabindex="0" aria-label="bytes: offset, hexadecimal, characters">{html.escape(shown)}</pre>{more}'
    )
