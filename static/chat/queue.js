// What is sent while an answer is written waits here, in this browser, and goes out when the answer is there. An entry
// keeps the id that its message will have, so that two tabs that send it make one message.
const { byId, form, text, words, say, keepList, recallList, edit } = window.loom;
const list = byId("queue");
const key = `queue:${form.dataset.draft}`;
const busy = () => byId("live").classList.contains("on");
// An answer that failed, was stopped or asks something is looked at first.
const clean = () => !document.querySelector("#log .ask, #log > .run:last-child > .end > .said");
let [sending, held] = [false, false];

const read = () => recallList(key);
const write = (entries) => {
  const kept = keepList(key, entries);
  draw();
  return kept;
};
const without = (id) => read().filter((entry) => entry.id !== id);
const draw = () => {
  list.replaceChildren(...read().map(({ id, fields, files = [] }) => {
    const item = byId("queued").content.cloneNode(true).firstElementChild;
    item.dataset.id = id;
    item.querySelector("span").textContent = [fields.find(([name]) => name === "text")[1], ...files].filter(Boolean).join(" · ");
    return item;
  }));
  list.hidden = !list.children.length;
};

const send = async () => {
  const [first] = read();
  if (sending || !first || busy() || !(first.now || (clean() && !held))) return;
  sending = true;
  try {
    const body = new FormData();
    for (const [name, value] of [...first.fields, ["csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value]]) body.append(name, value);
    const answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
    if (answer.status === 204) write(without(first.id));
    else if (answer.status !== 409) {
      const said = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".notice");
      const sentence = answer.redirected ? words.signed_out : said ? "{said}" : words.error;
      say(sentence, { said: said?.textContent, status: answer.status });
      hold(first);
    }
  } catch {
    hold(first); // the server cannot be reached: it is sent when somebody says so
  }
  sending = false;
};
const hold = (first) => {
  held = true;
  write(read().map((entry) => (entry.id === first.id ? { ...entry, now: false } : entry)));
};

addEventListener("submit", (event) => {
  const files = [...document.querySelectorAll("#chips b")].map((name) => name.textContent);
  if (event.target !== form || !busy() || !(text.value.trim() || files.length) || text.value.length > +text.dataset.max) return;
  const fields = [...new FormData(form)].filter(([name, value]) => name !== "csrfmiddlewaretoken" && typeof value === "string");
  // Without room for it, it goes to the server at once, which says that it has to wait; and the text stays where it is.
  if (!write([...read(), { id: form.elements.client_id.value, fields, files }])) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  text.value = "";
  text.dispatchEvent(new Event("input"));
  edit("");
  form.dispatchEvent(new CustomEvent("loom:queued", { bubbles: true }));
}, true);
list.addEventListener("click", ({ target }) => {
  const { id } = target.closest("li").dataset;
  if (target.matches(".cancel")) write(without(id));
  if (!target.matches(".now")) return;
  const meant = read().find((entry) => entry.id === id);
  write(meant ? [{ ...meant, now: true }, ...without(id)] : read());
  if (busy()) byId("stop-form").requestSubmit();
  else send();
});
addEventListener("storage", (event) => event.key === `loom:${key}` && draw());
// The mark of a run is replaced when one begins or ends; its footer comes with it.
new MutationObserver(() => setTimeout(send)).observe(form.parentElement, { childList: true });
draw();
send();
