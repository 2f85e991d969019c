// What is done with one message. The links and buttons work without this; with it the page stays where it is.
"use strict";
(() => {
  const form = document.getElementById("composer");
  const models = document.getElementById("models");
  const tell = (name, detail) => form.dispatchEvent(new CustomEvent(`loom:${name}`, { detail }));
  const texts = (within, what) => [...within.querySelectorAll(what)].map((part) => part.innerText.trim()).join("\n\n");

  const said = (link) => {
    const message = link.closest(".msg.user");
    if (message) return [...message.querySelectorAll(".bubble.text")].map((part) => part.textContent).join("");
    const run = link.closest(".run");
    run.classList.add("copying"); // hides labels, so that the text is the answer alone
    const answer = texts(run, ".bot > .md");
    run.classList.remove("copying");
    return answer;
  };
  // What is selected in that message, else all of it.
  const quoted = (link) => {
    const selection = getSelection();
    const place = link.closest(".msg.user") || link.closest(".run");
    const part = selection.isCollapsed || !place.contains(selection.anchorNode) ? "" : selection.toString().trim();
    return `${(part || said(link)).replace(/^/gm, "> ")}\n\n`;
  };

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest(".edit, .quote, #editing a, .other");
    if (!link) {
      // The row of a message is folded again once something of it was chosen.
      if (event.target.closest(".more button")) event.target.closest(".more").open = false;
      if (event.target.closest("#models button")) models.hidePopover();
      return;
    }
    if (link.matches(".other")) document.querySelector("#again-form [name=message]").value = link.dataset.message;
    else event.preventDefault();
    if (link.matches(".edit")) tell("edit", { id: new URL(link.href).searchParams.get("edit"), value: said(link) });
    if (link.matches(".quote")) tell("insert", quoted(link));
    if (link.matches("#editing a")) tell("edit", { id: "" });
    const more = link.closest(".more");
    if (more) more.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && form.elements.edits?.value && form.contains(event.target)) tell("edit", { id: "" });
  });
})();
