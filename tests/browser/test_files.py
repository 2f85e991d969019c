"""Files in the message box: chosen, dropped and pasted, on their way, refused, lost, taken away, and sent."""

from __future__ import annotations

import base64
import re
import struct
import threading
import zlib

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat import Chat, turn_page
from tests.browser.test_look import serious
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow

ZIP = b"PK\x03\x04" + b"\x14\x00" * 20
HOSTILE = "' onerror='alert(1).png"


def png(width: int = 32, height: int = 24) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\x00" + b"\x2a\x7f\xb0" * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


PNG = png()


def file(name: str, content: bytes, kind: str = "") -> dict[str, object]:
    return {"name": name, "mimeType": kind or "application/octet-stream", "buffer": content}


def chips(chat: Chat):
    return chat.page.locator("#chips li")


def attach(chat: Chat, *files: dict[str, object]) -> None:
    chat.page.locator("#files").set_input_files(list(files))  # type: ignore[arg-type]


def uploaded(chat: Chat, count: int) -> None:
    expect(chat.page.locator("#chips [name=attachment]")).to_have_count(count)


def hand_over(page: Page, event: str, name: str, content: bytes, kind: str, text: str = "") -> bool:
    """A drop or a paste of one file, as the browser makes it; whether the box then says that it takes it."""
    return page.evaluate(
        """([event, name, data, type, text]) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const held = new DataTransfer();
            held.items.add(new File([bytes], name, { type }));
            if (text) held.setData("text/plain", text);
            const target = document.getElementById("text");
            const made = event === "paste"
                ? new ClipboardEvent("paste", { clipboardData: held, bubbles: true, cancelable: true })
                : new DragEvent(event, { dataTransfer: held, bubbles: true, cancelable: true });
            target.dispatchEvent(made);
            return target.form.classList.contains("dropping");
        }""",
        [event, name, base64.b64encode(content).decode(), kind, text],
    )


def test_files_are_attached_sent_shown_and_read_by_the_model(chat: Chat, standin: StandIn):
    before = len(standin.exchanges)
    standin.play(Say("A blue picture."))
    attach(chat, file(HOSTILE, PNG, "image/png"), file("code.py", b"x = 1\n"))
    uploaded(chat, 2)
    expect(chips(chat).first.locator("small")).to_have_text(re.compile("byte|kB"))
    chat.ask("Look at this", model="stand-in").done()
    expect(chips(chat)).to_have_count(0)
    picture = chat.last.locator(".thumb img")
    expect(picture).to_have_js_property("naturalWidth", 32)
    expect(picture).to_have_attribute("alt", HOSTILE)
    expect(chat.last.locator("a.file")).to_contain_text("code.py")
    assert serious(chat.page) == []
    # Its box is there before it is, whatever its size; it opens as a whole, and can be saved there.
    box = picture.bounding_box()
    assert (round(box["width"]), round(box["height"])) == (158, 126)
    chat.last.get_by_role("button", name=HOSTILE).click()
    whole = chat.last.locator(".whole")
    expect(whole.locator("img")).to_have_js_property("naturalWidth", 32)
    expect(whole.get_by_role("link", name=HOSTILE)).to_be_visible()
    chat.page.keyboard.press("Escape")
    expect(whole).to_be_hidden()
    asked = [each for each in standin.exchanges[before:] if each.path.endswith("completions")]
    asked = asked[0].json["messages"][-1]["content"]
    assert [part["type"] for part in asked] == ["image_url", "text", "text"]
    assert asked[0]["image_url"]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert "```python\nx = 1\n" in asked[1]["text"]
    chat.page.reload()
    expect(chat.last.locator(".thumb img")).to_have_js_property("naturalWidth", 32)
    expect(chips(chat)).to_have_count(0)
    with chat.page.expect_download() as download:
        chat.last.locator("a.file").click()
    assert download.value.suggested_filename == "code.py"


def test_a_file_needs_no_words(chat: Chat):
    attach(chat, file("a.png", PNG, "image/png"))
    uploaded(chat, 1)
    chat.text.press("Enter")
    expect(chat.runs).to_have_count(1)
    expect(chat.page.locator("#title")).to_have_text("a.png")


def test_files_are_dropped_and_pasted(chat: Chat):
    assert hand_over(chat.page, "dragover", "a.png", PNG, "image/png")
    hand_over(chat.page, "drop", "a.png", PNG, "image/png")
    uploaded(chat, 1)
    expect(chat.page.locator(".composer.dropping")).to_have_count(0)
    hand_over(chat.page, "paste", "image.png", PNG, "image/png")
    uploaded(chat, 2)
    hand_over(chat.page, "paste", "table.png", PNG, "image/png", text="1\t2")
    uploaded(chat, 2)


def test_what_is_attached_survives_a_reload_and_can_be_taken_away(chat: Chat):
    attach(chat, file("a.png", PNG, "image/png"), file("b.txt", b"words"))
    uploaded(chat, 2)
    chat.page.reload()
    uploaded(chat, 2)
    chat.page.get_by_role("button", name="Remove a.png").click()
    expect(chips(chat)).to_have_count(1)
    expect(chat.text).to_be_focused()
    chat.page.reload()
    uploaded(chat, 1)
    expect(chips(chat)).to_contain_text("b.txt")


def test_a_file_that_is_refused_says_why_and_keeps_the_words(chat: Chat, watch):
    watch.allow("422")
    chat.text.fill("My words")
    attach(chat, file("photo.png", ZIP, "image/png"))
    expect(chips(chat)).to_contain_text("ZIP archive")
    assert serious(chat.page) == []
    expect(chips(chat).locator("img")).to_have_count(0)
    expect(chat.page.get_by_role("button", name="Try again")).to_be_hidden()
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("could not be uploaded")
    expect(chat.text).to_have_value("My words")
    assert chat.path == "/"
    chat.page.get_by_role("button", name="Remove photo.png").click()
    chat.ask("My words").done()


def test_what_would_be_sent_in_vain_is_not_sent(chat: Chat):
    attach(chat, file("nothing.txt", b""))
    expect(chat.notice).to_contain_text("nothing.txt is empty")
    chat.page.evaluate(
        """() => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(21 * 1024 * 1024)], "huge.bin"));
            const input = document.getElementById("files");
            input.files = held.files;
            input.dispatchEvent(new Event("change", { bubbles: true }));
        }"""
    )
    expect(chat.notice).to_contain_text("huge.bin has 21 MB; 20 MB is the most")
    attach(chat, *(file(f"{number}.txt", b"words %d" % number) for number in range(11)))
    expect(chat.notice).to_contain_text("at most 10 files")
    uploaded(chat, 10)


def test_a_connection_that_is_lost_is_said_and_tried_again(chat: Chat, watch):
    watch.allow("Failed to load resource")
    chat.page.route("**/api/attachments*", lambda route: route.abort("connectionreset"))
    attach(chat, file("a.png", PNG, "image/png"))
    expect(chips(chat)).to_contain_text("connection was lost")
    chat.page.unroute("**/api/attachments*")
    chat.page.get_by_role("button", name="Try again").click()
    uploaded(chat, 1)
    chat.ask("Look").done()
    expect(chat.last.locator(".thumb img")).to_have_count(1)


def test_a_message_waits_for_its_files_and_an_upload_is_cancelled(chat: Chat):
    held = []
    chat.page.route("**/api/attachments*", lambda route: held.append(route))
    chat.text.fill("Look")
    attach(chat, file("a.png", PNG, "image/png"))
    expect(chips(chat)).to_have_class("busy")
    chat.text.press("Enter")
    expect(chat.notice).to_contain_text("still on their way")
    expect(chat.text).to_have_value("Look")
    chat.page.get_by_role("button", name="Remove a.png").click()
    expect(chips(chat)).to_have_count(0)
    chat.text.press("Enter")
    expect(chat.runs).to_have_count(1)


def test_a_file_waits_with_its_message_while_an_answer_is_written(chat: Chat, standin: StandIn):
    chat.ask("help").done()
    gate = threading.Event()
    standin.play(Say("Word after word. " * 40, pieces=10, gate=gate))
    chat.ask("Take your time", model="stand-in")
    chat.active()
    attach(chat, file("a.png", PNG, "image/png"))
    uploaded(chat, 1)
    chat.text.press("Enter")
    expect(chat.page.locator("#queue li")).to_contain_text("a.png")
    expect(chips(chat)).to_have_count(0)
    gate.set()
    expect(chat.runs).to_have_count(3)
    expect(chat.last.locator(".thumb img")).to_have_js_property("naturalWidth", 32)
    expect(chat.page.locator("#queue li")).to_have_count(0)


@pytest.mark.slow
def test_without_javascript_the_form_brings_the_files_along(context_of, person):
    page = context_of(person, java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_label("Attach files").set_input_files([file("a.png", PNG, "image/png")])  # type: ignore[list-item]
    page.get_by_label("Message").fill("Look")
    turn_page(page.get_by_role("button", name="Send"))
    expect(page.locator("#log .thumb img")).to_have_js_property("naturalWidth", 32)
