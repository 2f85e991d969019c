"""What a file is, by its content alone; and names that are safe to show, send and save."""

from __future__ import annotations

import pytest

from chatsite.chat.files.types import LONGEST_NAME, Untaken, as_text, read_text, safe_name, type_of

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
ZIP = b"PK\x03\x04" + b"\x14\x00" * 20
EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0" + b"\x00" * 20, "image/jpeg"),
        (b"GIF89a" + b"\x00" * 20, "image/gif"),
        (b"RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"ID3\x03\x00", "audio/mpeg"),
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"print('hello')\n", "text/plain"),
        ("Grüße \N{SNOWMAN}".encode(), "text/plain"),
        ("\N{BYTE ORDER MARK}Grüße".encode("utf-16-le"), "text/plain"),
        (b"\xef\xbb\xbfmarked", "text/plain"),
        (SVG, "text/plain"),
        (b"<!doctype html><script>alert(1)</script>", "text/plain"),
        (EICAR, "text/plain"),
    ],
)
def test_a_file_is_what_its_content_says(content: bytes, kind: str):
    assert type_of(content) == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (ZIP, "ZIP archive"),
        (b"MZ\x90\x00\x03\x00\x00\x00\xff\xff", "program for Windows"),
        (b"\x7fELF\x02\x01\x01\x00", "program for Linux"),
        (b"\x00\x00\x00\x18ftypheic\x00", "HEIC"),
        (b"\x00\x00\x00\x18ftypmp42\x00", "MP4"),
        (b"\xde\xad\xbe\xef" * 10, "no kind that is taken"),
        (b"text with\x00NUL", "no kind that is taken"),
        ("Grüße".encode("latin-1"), "must be UTF-8"),
        (b"RIFF\x10\x00\x00\x00AVI LIST\xff", "no kind that is taken"),
    ],
)
def test_what_is_not_taken_is_refused_in_words(content: bytes, words: str):
    with pytest.raises(Untaken, match=words):
        type_of(content)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\photo.png", "photo.png"),
        ("a\x00b.txt", "ab.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u200bhid\u200dden\u2066.txt", "hidden.txt"),
        ("two\r\nlines.txt", "two lines.txt"),
        (".htaccess", "htaccess"),
        ("<img src=x onerror=alert(1)>.png", "img src=x onerror=alert(1).png"),
        ("\ud800half.txt", "half.txt"),
        ("u\u0308ber.md", "über.md"),
        ("..", "file.txt"),
        ("", "file.txt"),
        ("/", "file.txt"),
    ],
)
def test_a_name_is_one_that_can_be_shown_and_saved_anywhere(name: str, safe: str):
    assert safe_name(name) == safe


def test_a_long_name_keeps_its_ending():
    name = safe_name("x" * 5000 + ".pdf")
    assert len(name) <= LONGEST_NAME
    assert name.endswith("….pdf")
    assert safe_name("", "image/png") == "file.png"


def test_the_text_of_a_file_stands_in_a_fence_that_nothing_in_it_ends():
    text = as_text("a.py", b"def f():\n    '''\n```\n`````\n'''")
    assert text.startswith("a.py:\n\n``````python\ndef f():")
    assert text.endswith("'''\n``````")
    assert as_text("x.we`ird", b"t").splitlines()[2] == "```"


def test_text_is_read_in_the_encoding_its_mark_names():
    assert read_text("\N{BYTE ORDER MARK}Grüße".encode("utf-16-be")) == "Grüße"
    assert read_text(b"\xef\xbb\xbfmarked") == "marked"
    assert read_text(b"\xff\xfe\x00\xd8") is None
