// Asks the browser for a passkey and sends what it gives with the form. `webauthnJSON` is django-allauth's.
(() => {
  const { webauthnJSON } = window;

  const optionsOf = async (form) => {
    if (form.dataset.options) return JSON.parse(form.dataset.options);
    const answer = await fetch(form.action, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return (await answer.json()).request_options;
  };

  const made = (options, alone) => {
    const wanted = options.publicKey.authenticatorSelection;
    wanted.residentKey = alone ? "required" : "discouraged";
    wanted.requireResidentKey = alone;
    if (alone) wanted.userVerification = "required";
    return webauthnJSON.create(options);
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const problem = form.querySelector(".notice");
      problem.hidden = true;
      try {
        const options = await optionsOf(form);
        const alone = form.elements.passwordless;
        const given = form.dataset.passkey === "create" ? made(options, alone ? alone.checked : false) : webauthnJSON.get(options);
        form.elements.credential.value = JSON.stringify(await given);
        form.submit();
      } catch {
        problem.hidden = false;
      }
    });
    form.hidden = false;
  }
})();
