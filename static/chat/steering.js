// What is done with one message, and copy. The links and buttons work without this; with it the page stays where it is.
const { byId, form, text, words, edit } = window.loom;
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

// An answer as the model wrote it; where the server cannot be asked, as it is shown.
const written = async (button) => {
  const answer = await fetch(`./export.md?of=${encodeURIComponent(button.value)}`).catch(() => null);
  return answer?.ok && !answer.redirected ? answer.text() : said(button);
};
const write = async (text) => {
  try {
    // With the promise, since Safari takes nothing that is only there a moment after the click.
    const blob = Promise.resolve(text).then((words) => new Blob([words], { type: "text/plain" }));
    return await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } catch {} // plain http on a local network has none, an older browser no such item, and a page may be refused
  const area = Object.assign(document.createElement("textarea"), { value: await text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
};
const copy = async (button) => {
  await write(button.closest("figure")?.querySelector("code").textContent ?? written(button));
  button.textContent = words.copied;
  setTimeout(() => (button.textContent = words.copy), 1500);
};

document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest("button.copy, .edit, .quote, .other, .more button, #models button, #editing a");
  if (!link) return;
  if (link.matches("a")) event.preventDefault();
  if (link.matches(".copy")) copy(link);
  if (link.matches(".edit")) edit(new URL(link.href).searchParams.get("edit"), said(link));
  if (link.matches(".quote")) window.loom.write((text.value && `${text.value.replace(/\n*$/, "")}\n\n`) + quoted(link));
  if (link.matches(".other")) document.querySelector("#again-form [name=message]").value = link.dataset.message;
  if (link.matches("#editing a")) edit("");
  if (link.matches("#models button")) byId("models").hidePopover();
  link.closest(".more")?.removeAttribute("open"); // something of the row was chosen
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && form.elements.edits?.value && form.contains(event.target)) edit("");
});
