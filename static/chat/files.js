// Files for the message box: by button, drop and paste. Each is uploaded at once, three side by side, with its progress;
// what is uploaded outlives a reload, like the draft. The server decides what it takes, by content; here is only looked
// at what would be sent in vain.
const { byId, form, text, lang, say, keepList, recallList } = window.loom;
const [input, list, status] = ["files", "chips", "status"].map(byId);
const words = JSON.parse(byId("files-words").textContent);
const { url, max, most } = input.dataset;
const draft = `files:${form.dataset.draft}`;
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const chips = new Map(); // element -> {file, id, request, state}
let sent = [];
input.removeAttribute("name"); // a file goes by itself, and its id with the message

const size = (bytes) => {
  const small = bytes < 2 ** 20; // as the limits are counted
  const [value, unit] = small ? [bytes / 2 ** 10, "kilobyte"] : [bytes / 2 ** 20, "megabyte"];
  return value.toLocaleString(lang, { style: "unit", unit, maximumFractionDigits: value < 10 ? 1 : 0, roundingMode: "ceil" });
};

const changed = () => {
  window.loom.changed();
  list.hidden = !chips.size;
  text.required = !chips.size;
  keepList(draft, [...chips.values()].filter(({ id }) => id).map(({ id, name, note }) => ({ id, name, note })));
};

const chipOf = (one) => {
  const chip = byId("chip").content.cloneNode(true).firstElementChild;
  const [name, said, bar, again, remove] = chip.children;
  Object.assign(one, { chip, said, bar, again });
  if (PICTURES.includes(one.file?.type)) {
    one.picture = Object.assign(new Image(), { alt: "", src: URL.createObjectURL(one.file) });
    one.picture.addEventListener("error", () => one.picture.remove());
    chip.prepend(one.picture);
  }
  name.textContent = name.title = bar.ariaLabel = one.name;
  said.textContent = one.note || words.waiting;
  bar.hidden = !one.file;
  remove.ariaLabel = words.remove.replace("{name}", () => one.name);
  again.addEventListener("click", () => Object.assign(one, { state: "waiting" }) && next());
  remove.addEventListener("click", () => {
    drop(one);
    text.focus();
  });
  list.append(chip);
  chips.set(chip, one);
  return one;
};
const drop = (one) => {
  one.request?.abort();
  if (one.picture) URL.revokeObjectURL(one.picture.src);
  chips.delete(one.chip);
  one.chip.remove();
  changed();
  next();
};

const hold = ({ chip, id }) =>
  chip.append(Object.assign(document.createElement("input"), { type: "hidden", name: "attachment", value: id }));
const done = (one, { id, name, size: bytes }) => {
  Object.assign(one, { id, name, note: size(bytes), state: "done" });
  hold(one);
  one.chip.querySelector("b").textContent = name;
  one.said.textContent = one.note;
  one.bar.hidden = true;
  status.textContent = words.attached.replace("{name}", () => name);
  changed();
};
const failed = (one, sentence, final) => {
  one.state = "failed";
  one.chip.className = "failed";
  one.said.textContent = sentence.replace(`${one.name}: `, "");
  one.bar.hidden = true;
  one.again.hidden = final;
  status.textContent = `${one.name}: ${one.said.textContent}`;
  one.chip.scrollIntoView({ block: "nearest" });
};

const upload = (one) => {
  const request = (one.request = new XMLHttpRequest());
  Object.assign(one, { state: "busy" }).chip.className = "busy";
  Object.assign(one.bar, { hidden: false, value: 0 });
  one.again.hidden = true;
  let percent = 0;
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    percent = total ? Math.floor((100 * loaded) / total) : 0;
    one.bar.value = percent / 100;
    one.said.textContent = percent < 100 ? `${percent} %` : words.checking;
  });
  request.addEventListener("load", () => {
    let answer = {};
    try { answer = JSON.parse(request.responseText); } catch { /* a proxy's page */ }
    one.chip.className = "";
    if (request.status === 201) done(one, answer);
    else {
      const large = request.status === 413;
      const sentence = large ? words.large.replace("{max}", size(max)) : words.error;
      failed(one, answer.error?.message || sentence, large || request.status === 422);
    }
  });
  request.addEventListener("error", () => failed(one, words.lost.replace("{percent}", percent), false));
  request.addEventListener("loadend", next);
  request.open("POST", `${url}?name=${encodeURIComponent(one.name)}`);
  request.setRequestHeader("X-CSRFToken", form.elements.csrfmiddlewaretoken.value);
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.send(one.file);
};
function next() {
  const all = [...chips.values()];
  const free = 3 - all.filter((one) => one.state === "busy").length;
  for (const one of all.filter((each) => each.state === "waiting").slice(0, Math.max(0, free))) upload(one);
}

const add = (files) => {
  const room = most - chips.size;
  if (files.length > room) say(words.many, { most });
  for (const file of files.slice(0, room)) {
    if (file.size > max) say(words.big, { name: file.name, size: size(file.size), max: size(max) });
    else if (!file.size) say(words.empty, { name: file.name });
    else chipOf({ file, name: file.name || words.file, state: "waiting" });
  }
  changed();
  next();
};

input.addEventListener("change", () => {
  add([...input.files]);
  input.value = "";
  text.focus();
});
text.addEventListener("paste", (event) => {
  // A table copied from a sheet comes as text and as a picture of it: the text is meant.
  if (!event.clipboardData?.files.length || event.clipboardData.types.includes("text/plain")) return;
  event.preventDefault();
  add([...event.clipboardData.files]);
});
const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
let gone = 0;
document.addEventListener("dragover", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  event.dataTransfer.dropEffect = "copy";
  form.classList.add("dropping");
  clearTimeout(gone); // a drag that leaves the window says so in no browser alike
  gone = setTimeout(() => form.classList.remove("dropping"), 400);
});
document.addEventListener("drop", (event) => {
  if (!holdsFiles(event)) return;
  event.preventDefault();
  form.classList.remove("dropping");
  add([...event.dataTransfer.files]);
  text.focus();
});

addEventListener("submit", (event) => {
  if (event.target !== form) return;
  sent = [...chips.values()];
  if (sent.every((one) => one.state === "done")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  say(sent.some((one) => one.state === "failed") ? words.unsent : words.wait);
}, true);
for (const past of ["loom:done", "loom:queued"]) form.addEventListener(past, () => sent.splice(0).forEach(drop));

for (const { id, name, note } of recallList(draft)) hold(chipOf({ name, note, id, state: "done" }));
changed();
