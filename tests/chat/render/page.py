"""The swaps of htmx and `static/chat/chat.js`, in Python: enough of a page to apply fragments to."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

from chatsite.chat.render.swaps import thread_mark

VOID = {"br", "hr", "img", "input"}


class Node:
    def __init__(self, tag: str, attributes: dict[str, str | None], parent: Node | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Node | str] = []

    @property
    def elements(self) -> list[Node]:
        return [child for child in self.children if isinstance(child, Node)]

    def append(self, children: list[Node | str]) -> None:
        for child in children:
            if isinstance(child, Node):
                child.parent = self
                self.children.append(child)
            elif self.children and isinstance(self.children[-1], str):
                self.children[-1] += child
            else:
                self.children.append(child)

    def find(self, id: str) -> Node | None:
        if self.attributes.get("id") == id:
            return self
        return next((found for each in self.elements if (found := each.find(id))), None)

    def html(self) -> str:
        inner = "".join(escape(c, quote=False) if isinstance(c, str) else c.html() for c in self.children)
        if self.tag == "#":
            return inner
        # Whether a card is open is up to who reads it.
        shown = {name: value for name, value in self.attributes.items() if name != "open"}
        attributes = "".join(f' {name}="{escape(value or "")}"' for name, value in shown.items())
        return f"<{self.tag}{attributes}>" + ("" if self.tag in VOID else f"{inner}</{self.tag}>")


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.at = Node("#", {}, None)

    def handle_starttag(self, tag, attributes):
        node = Node(tag, dict(attributes), self.at)
        self.at.append([node])
        if tag not in VOID:
            self.at = node

    def handle_endtag(self, tag):
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.append([data])


def parse(html: str) -> Node:
    parser = _Parser()
    parser.feed(html)
    parser.close()
    assert parser.at is parser.root, f"<{parser.at.tag}> is left open"
    return parser.root


class Page:
    def __init__(self, transcript: str = "") -> None:
        self.root = parse(
            "<h1 id=title></h1><i id=live hidden></i><p id=status></p><div id=standing></div>"
            f"<span id={thread_mark('thread')}></span>"
            f"<div id=log>{transcript}</div>"
        )

    @property
    def log(self) -> str:
        return "".join(
            child if isinstance(child, str) else child.html() for child in self._get("log").children
        )

    def text(self, id: str) -> str:
        return "".join(child for child in self._get(id).children if isinstance(child, str))

    def apply(self, fragments: str) -> None:
        for element in parse(fragments).elements:
            match element.tag:
                case "hx-up":
                    self._up(element)
                case "hx-set" | "hx-add":
                    self._grow(element)
                case "hx-partial":
                    for selector in element.attributes["hx-target"].split(","):
                        target = self.root.find(selector[1:])
                        if target and element.attributes["hx-swap"] == "delete":
                            target.parent.children = [c for c in target.parent.children if c is not target]
                        elif target:
                            target.children = []
                            target.append(element.children)
                case other:
                    assert other == "title", other

    def _get(self, id: str) -> Node:
        found = self.root.find(id)
        assert found is not None, id
        return found

    def _up(self, element: Node) -> None:
        for new in element.elements:
            old = self.root.find(new.attributes["id"])
            asks = old.attributes.get("data-q") if old is not None else None
            if asks and asks == new.attributes.get("data-q"):
                continue
            if old is not None:
                place = next(i for i, each in enumerate(old.parent.children) if each is old)
                old.parent.children[place] = new
                new.parent = old.parent
            elif "to" in element.attributes:
                self._get(element.attributes["to"]).append([new])

    def _grow(self, element: Node) -> None:
        order = element.attributes
        region = self._get(order["to"])
        if region.attributes.get("data-v") != order["f"]:
            assert int(order["f"]) < int(region.attributes.get("data-v", 1e9)), "a fragment is missing"
            return
        if (k := order.get("k")) is not None:
            while len(region.elements) <= int(k):
                region.append([Node("div", {}, region)])
            at = region.elements[int(k)]
            if element.tag == "hx-add":
                for _ in range(int(order["d"])):
                    at = at.elements[-1]
                at.append(element.children)
            else:
                at.children = []
                at.append(element.children)
        if (c := order.get("c")) is not None:
            del region.children[int(c) :]
        if order.get("v") == "x":
            del region.attributes["data-v"]
        elif order.get("v"):
            region.attributes["data-v"] = order["v"]
