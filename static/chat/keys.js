// The keyboard map of the page: `?` shows it (templates/chat/keys.html). Single keys work while nobody types, and can be
// switched off there: whoever speaks to the page, or rests a hand on the keys, would set them off.
const { byId, text, keep, recall } = window.loom;
const [help, scroll, find, threads, on] = ["shortcuts", "scroll", "find", "threads", "keys-on"].map(byId);
const last = (selector) => [...document.querySelectorAll(selector)].at(-1);

on.checked = !recall("keys-off");
on.addEventListener("change", () => keep("keys-off", !on.checked && "1"));

const go = (element) => {
  if (element.matches(".msg")) element.tabIndex = -1;
  element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest" });
  if (element.offsetHeight > scroll.clientHeight) element.scrollIntoView({ block: "start" });
};
const move = (step) => {
  const all = [...document.querySelectorAll("#log > .older a, #log .msg")];
  const at = all.indexOf(document.activeElement.closest(".msg, .older a"));
  const seen = all.findIndex((one) => one.getBoundingClientRect().bottom > scroll.getBoundingClientRect().top + 8);
  const next = all[at < 0 ? (step > 0 ? seen : all.length - 1) : at + step];
  if (next) go(next);
};

const KEYS = {
  "?": () => help.togglePopover(),
  "/": () => {
    if (!find.offsetParent) threads.showPopover();
    find.focus();
  },
  c: () => text.focus(),
  n: () => document.querySelector("a.new").click(),
  j: () => move(1),
  k: () => move(-1),
  s: () => document.querySelector("#live.on") && document.querySelector(".stop").click(),
  y: () => last("#log .copy.all")?.click(),
};

const TYPING = "textarea, select, input:not([type=checkbox], [type=radio]), [contenteditable]";
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === text) return scroll.focus();
  if (!on.checked || event.repeat && !"jk".includes(event.key) || event.target.closest?.(TYPING)) return;
  if (!Object.hasOwn(KEYS, event.key) || help.matches(":popover-open") && event.key !== "?") return;
  event.preventDefault();
  KEYS[event.key]();
});
