// The page's own script. htmx does the requests, the stream and most swaps; this adds what it has no word for: text
// that grows in place, the composer's keys and draft, following the newest line, and words for a failed request.
// Whatever the server sends may come twice, so nothing here minds a replay.
const byId = (id) => document.getElementById(id);
const [form, text, notice, scroll, log, jump, stream] =
  ["composer", "text", "composer-notice", "scroll", "log", "jump", "stream"].map(byId);
document.documentElement.classList.add("js");
const { lang } = document.documentElement;
const words = JSON.parse(byId("page-words").textContent);

const say = (sentence, values = {}) => {
  const textContent = sentence.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  const p = Object.assign(document.createElement("p"), { className: "notice error", textContent });
  p.setAttribute("role", "alert");
  notice.replaceChildren(p);
};

const localTimes = () => {
  for (const time of document.querySelectorAll("#log time:not([title])")) {
    time.title = time.textContent;
    time.textContent = new Date(time.dateTime).toLocaleString(lang, { dateStyle: "medium", timeStyle: "short" });
  }
};
localTimes();

// -- swaps: <hx-up>, <hx-set>, <hx-add> (chatsite/chat/render/swaps.py says what they mean)

const put = (fragment, parent) => {
  const added = [...fragment.children];
  for (const element of added) {
    const old = element.id && byId(element.id);
    // A question that is on the page already: somebody may be typing in it.
    if (old?.dataset.q && old.dataset.q === element.dataset.q) continue;
    if (old) {
      if (old.dataset.q && old.contains(document.activeElement)) queueMicrotask(() => text.focus({ preventScroll: true }));
      const open = [old, ...old.querySelectorAll("details[open]")].filter((one) => one.open && one.id);
      old.replaceWith(element);
      for (const { id } of open) byId(id)?.setAttribute("open", "");
    } else parent?.append(element);
    if (element.dataset.q) element.closest("details").open = true;
  }
  localTimes();
  return added;
};

const grow = (fragment, region, { op, k, d, c, f, v }) => {
  if (region.dataset.v !== f) {
    // Older than what is shown: a replay. Newer: something is missing, so take the page anew, but not for ever: not where
    // nobody could know that it just was.
    const missing = +f > +region.dataset.v && Date.now() - (recall("reloaded", "sessionStorage") || 0) > 30000;
    if (missing && keep("reloaded", Date.now(), "sessionStorage")) location.reload();
    return [];
  }
  if (k != null) {
    while (region.children.length <= k) region.append(document.createElement("div"));
    let at = region.children[k];
    if (op === "set") at.replaceChildren();
    else while (d-- > 0) at = at.lastElementChild;
    at.append(fragment);
  }
  while (c != null && region.children.length > c) region.lastElementChild.remove();
  if (v === "x") delete region.dataset.v;
  else if (v) region.dataset.v = v;
  return [];
};

const task = (op) => (template, { ctx, tasks }) => {
  const spec = { style: "loom", op };
  for (const name of ["to", "k", "d", "c", "f", "v"]) spec[name] = template.getAttribute(name);
  const { content: fragment } = template;
  tasks.push({ type: "partial", fragment, target: `#${spec.to || "log"}`, swapSpec: spec, sourceElement: ctx.sourceElement });
};

htmx.registerExtension("loom", {
  htmx_process_up: task("up"),
  htmx_process_set: task("set"),
  htmx_process_add: task("add"),
  handle_swap(style, target, fragment, spec) {
    if (style !== "loom") return false;
    return spec.op === "up" ? put(fragment, spec.to && target) : grow(fragment, target, spec);
  },
});

// -- following the newest line

let follow = true;
const look = () => { jump.hidden = follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 24; };
const toEnd = () => {
  scroll.scrollTop = scroll.scrollHeight;
  look();
};
if (log) {
  const named = location.hash && byId(location.hash.slice(1));
  if (named) {
    named.scrollIntoView();
    named.tabIndex = -1; // the keyboard goes on from there
    named.focus({ preventScroll: true });
  } else toEnd();
  scroll.addEventListener("scroll", look, { passive: true });
  log.addEventListener("toggle", look, true);
  new ResizeObserver(() => follow && toEnd()).observe(scroll);
  jump.addEventListener("click", toEnd);
  // Earlier messages come in above, later ones below: what is being read stays where it is.
  let [link, away] = ["", 0];
  const border = () => (link === "older" ? scroll.scrollHeight : 0);
  log.addEventListener("htmx:before:swap", ({ detail: { ctx } }) => {
    link = ctx.target.id;
    away = border() - scroll.scrollTop;
  });
  log.addEventListener("htmx:after:swap", (event) => {
    event.stopPropagation();
    localTimes();
    scroll.scrollTop = border() - away;
    look();
    (byId(link)?.firstElementChild || scroll).focus({ preventScroll: true });
    byId("status").textContent = log.dataset[link];
  });
  document.addEventListener("htmx:after:swap", () => {
    follow ? toEnd() : look();
    // Stop went away under the keyboard.
    if (document.activeElement?.matches(".stop") && !document.activeElement.offsetParent) text.focus();
  });
}

// -- the composer

// What the browser keeps. It may be full, or refuse as soon as it is named: then a draft lives as long as the page.
function keep(key, value, where = "localStorage") {
  try {
    if (value) window[where].setItem(`loom:${key}`, value);
    else window[where].removeItem(`loom:${key}`);
    return true;
  } catch { return false; }
}
function recall(key, where = "localStorage") {
  try { return window[where].getItem(`loom:${key}`); } catch { return null; }
}
const keepList = (key, list) => keep(key, list.length && JSON.stringify(list));
const recallList = (key) => {
  try { return JSON.parse(recall(key)) || []; } catch { return []; }
};

const { draft } = form.dataset;
const { edits } = form.elements; // the message that is edited: what is typed then is no draft
const keepDraft = () => edits?.value || keep(draft, text.value);
const max = +text.dataset.max; // counted as UTF-16, so an emoji is two: a little stricter than the server
const digits = (value) => value.toLocaleString(lang);
const tooLong = (length) => say(words.long, { size: digits(length), most: digits(max) });
const fit = () => {
  if (CSS.supports("field-sizing", "content")) return;
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
};
const fill = (value) => {
  text.value = value;
  keepDraft();
  fit();
};
const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, "0")).join("");
// What was sent may have arrived though its answer did not: with another text, or other files, it is another message.
const changed = () => (form.elements.client_id.value = newId());
const edit = (id, value = recall(draft) || "") => {
  edits.value = id;
  byId("editing").hidden = !id;
  write(value);
};
const write = (value) => {
  changed();
  fill(value);
  text.focus();
};
// For the page's other scripts. They import nothing: where files have a hash in their names, an import by the plain name
// would run this one a second time.
window.loom = { byId, form, text, lang, words, say, keep, recall, keepList, recallList, changed, edit, write };

text.addEventListener("input", () => {
  if (sent && text.value !== sent) {
    changed();
    sent = "";
  }
  keepDraft();
  fit();
});
text.addEventListener("paste", (event) => {
  const pasted = event.clipboardData?.getData("text") || "";
  const length = text.value.length - (text.selectionEnd - text.selectionStart) + pasted.length;
  if (length <= max) return;
  event.preventDefault();
  tooLong(length);
});
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  if (text.value.trim() || form.elements.attachment) form.requestSubmit();
});
fill(text.value || recall(draft) || "");

// -- commands: what was sent, what went wrong

let sent = "";
const done = (source) => {
  if (source.elements?.client_id) source.elements.client_id.value = newId();
  if (source === form && text.value === sent) edits?.value ? edit("") : fill("");
  notice.replaceChildren();
  source.dispatchEvent(new CustomEvent("loom:done"));
};
const REFUSED = { 403: words.old, 413: words.large };

document.addEventListener("htmx:config:request", (event) => {
  const { sourceElement, request } = event.detail.ctx;
  if (sourceElement === stream && cursor) request.headers["Last-Event-ID"] = cursor;
  if (sourceElement !== form) return;
  sent = text.value;
  if ((sent.trim() || form.elements.attachment) && sent.length <= max) return;
  event.preventDefault();
  if (sent.trim()) tooLong(sent.length);
});
document.addEventListener("htmx:after:request", (event) => {
  const { ctx } = event.detail;
  if (ctx.sourceElement === stream) return;
  if (ctx.hx?.redirect) done(ctx.sourceElement);
  if (ctx.response.status === 204 || ctx.text.startsWith('<p class="notice')) return;
  if (["older", "newer"].includes(ctx.target?.id) && ctx.response.raw.ok && !ctx.response.raw.redirected) return;
  const { redirected, status } = ctx.response.raw;
  say((redirected && words.signed_out) || REFUSED[status] || words.error, { status });
  Object.assign(ctx, { swap: "none", text: "" });
});
document.addEventListener("htmx:error", (event) => {
  if ([undefined, stream].includes(event.detail.ctx?.sourceElement)) return;
  say(navigator.onLine ? words.unreached : words.offline);
});
for (const past of ["sent", "stopped", "retried", "continued", "answered", "forgotten", "edited", "branched", "restored"]) {
  document.addEventListener(`threadloom:${past}`, (event) => {
    done(event.target);
    if (!["stopped", "forgotten", "branched"].includes(past)) toEnd();
    if (matchMedia("(hover: hover)").matches) text.focus({ preventScroll: true });
  });
}

// -- the stream: open while the tab is visible, opened again when it ends

let [cursor, failures, quick, tick, waiting] = ["", 0, [], Date.now()];
const connection = () => stream._htmx?.sse;
// Where a proxy holds the stream back until it ends, nothing comes: then the page asks again and again.
let [polls, asking, silence] = [false, false, 0];
const open = () => {
  clearTimeout(waiting);
  if (document.hidden || connection() || asking) return;
  asking = true;
  if (polls) return void htmx.ajax("GET", `${stream.getAttribute("hx-sse:connect")}&wait=25`, { source: stream, swap: "none" });
  silence = setTimeout(() => {
    polls = true;
    connection()?.reader?.cancel();
    htmx.trigger(stream, "htmx:abort");
  }, 8000);
  htmx.trigger(stream, "loom:open");
};
const later = () => {
  clearTimeout(waiting);
  waiting = setTimeout(open, Math.min(1000 * 2 ** failures++, 15000) * (0.7 + Math.random() * 0.6));
};
if (stream) {
  stream.addEventListener("htmx:sse:before:message", (event) => {
    clearTimeout(silence);
    failures = 0;
    cursor = event.detail.message.id || cursor;
  });
  stream.addEventListener("htmx:sse:before:connection", (event) => {
    // A server that takes the connection and ends it at once is not there; ask for it anew and look at why.
    quick = [...quick.filter((at) => Date.now() - at < 10000), Date.now()];
    if (polls || quick.length > 8) event.preventDefault();
  });
  stream.addEventListener("htmx:sse:close", () => setTimeout(later));
  stream.addEventListener("htmx:finally:request", (event) => {
    const raw = event.detail.ctx.response?.raw;
    asking = false;
    if (connection()) return;
    clearTimeout(silence);
    cursor = raw?.headers.get("X-Thread-Cursor") || cursor;
    if (raw?.redirected) say(words.signed_out);
    else if (raw?.status === 404) say(words.gone);
    else if (polls && raw?.ok) failures = 0, setTimeout(open, 200);
    else later();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(silence), polls && htmx.trigger(stream, "htmx:abort");
    else open();
  });
  addEventListener("online", () => (connection()?.delayCanceller ? connection().delayCanceller() : open()));
  setInterval(() => {
    // The machine slept: whatever was open is dead, though nobody may have said so.
    if (Date.now() - tick > 30000) connection()?.reader?.cancel();
    tick = Date.now();
  }, 5000);
  document.addEventListener("DOMContentLoaded", () => setTimeout(open));
}
addEventListener("pageshow", (event) => event.persisted && location.reload());

document.querySelector(".prompts")?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || !event.target.href) return;
  event.preventDefault();
  write(new URL(event.target.href).searchParams.get("draft"));
});
