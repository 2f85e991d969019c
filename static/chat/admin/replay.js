// Plays a run at its own pace, one moment after the other. Without this the links and the form show the same.
(() => {
  const LONGEST = 2000;
  const stage = document.getElementById("replay");
  const slider = document.getElementById("slider");
  if (!slider) return;
  const button = document.getElementById("play");
  const range = document.getElementById("at");
  let timer = 0;
  let asked = 0;

  const pause = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = button.dataset.play;
  };

  const goOn = () => {
    const { next, wait } = stage.firstElementChild.dataset;
    if (next) timer = setTimeout(show, Math.min(Number(wait), LONGEST), next);
    else pause();
  };

  const show = async (at) => {
    const mine = ++asked;
    const answer = await fetch(`?at=${at}&part=1`).catch(() => null);
    if (mine !== asked) return;
    if (!answer || !answer.ok) return location.assign(`?at=${at}`);
    stage.innerHTML = await answer.text(); // the server's own page: every text in it is escaped or cleaned
    range.value = at;
    history.replaceState(null, "", `?at=${at}`);
    if (timer) goOn();
  };

  button.hidden = false;
  button.addEventListener("click", () => {
    if (timer) return pause();
    button.textContent = button.dataset.pause;
    timer = 1;
    if (stage.firstElementChild.dataset.next) goOn();
    else show(range.min);
  });
  range.addEventListener("change", () => {
    pause();
    show(range.value);
  });
})();
