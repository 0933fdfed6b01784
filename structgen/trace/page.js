"use strict";
(() => {
  const root = document.documentElement, find = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const theme = find("#theme");
  theme.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  for (const input of all(".modes input"))
    input.addEventListener("change", () => { find("main").dataset.mode = input.value; });

  const data = JSON.parse(find("#data").textContent);
  const box = find(".tokens");
  if (!box) return;
  const stops = [...box.querySelectorAll("[role=option]")], spans = [...box.querySelectorAll(".t")];
  const text = find("#i-text"), place = find("#i-place"), facts = find("#i-facts"), others = find("#i-others"), wanted = find("#i-wanted");
  let current = null;

  const percent = (p) => p === null ? "–" : p >= 0.9995 ? "100%" : p >= 0.995 || p < 0.0995
    ? p >= 0.001 ? (100 * p).toFixed(1) + "%" : p > 0 ? "<0.1%" : "0%" : (100 * p).toFixed(0) + "%";
  const seconds = (s) => s === null ? "–" : s >= 1 ? s.toFixed(2) + " s" : s >= 0.001 ? (1000 * s).toFixed(1) + " ms" : (1e6 * s).toFixed(0) + " µs";
  const visible = (s) => (s.trim() ? s : s.replace(/ /g, "␣")).replace(/\n/g, "↵").replace(/\t/g, "⇥") || "·";
  const element = (name, kind, said) => {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (said !== undefined) made.textContent = said;
    return made;
  };
  const fact = (name, value) => { const row = element("div"); row.append(element("dt", "", name), element("dd", "", value)); return row; };

  function showToken(index) {
    const [id, said, pointer, forced, drafted, allowed, removed, probability, chance, time, choices] = data.tokens[index];
    find("#i-title").textContent = `Token ${index + 1} of ${data.tokens.length}`;
    text.className = ""; text.textContent = said ? visible(said) : "(no text of its own)";
    place.textContent = [pointer === null ? "thinking" : pointer || "the root", `id ${id}`, forced ? "forced: nothing else could stand there" : "", drafted ? "drafted" : ""].filter(Boolean).join(" · ");
    facts.replaceChildren(...(forced ? [] : [
      fact("chance among allowed", percent(chance)), fact("before the mask", percent(probability)),
      fact("removed by the mask", percent(removed)), fact("allowed tokens", allowed === null ? "all" : allowed.toLocaleString("en")),
      fact("time of the step", seconds(time)),
    ]));
    const first = choices.find(([, , may, chosen]) => !may && !chosen), liked = choices[0];
    wanted.textContent = forced || !choices.length ? "" : first && first === liked
      ? `The model wanted “${visible(first[0])}”, which was refused. What else it might have said:`
      : first ? "What the model might have said; struck out: refused." : "What the model might have said:";
    others.replaceChildren(...choices.map(([spelled, p, may, chosen, why]) => {
      const row = element("li", chosen ? "said" : may ? "" : "no"), bar = element("span", "bar"), fill = element("i");
      fill.style.setProperty("--w", `${100 * p}%`); bar.append(fill);
      row.append(element("code", "", visible(spelled)), bar, element("span", "num", percent(p)));
      if (why) row.append(element("span", "why", why));
      row.title = chosen ? "chosen" : may ? "allowed" : "refused";
      return row;
    }));
    light(pointer, null, choices.filter(([, , may]) => !may).map((choice) => choice[5]).filter(Boolean));
  }
  function showUndone(index) {
    const [said, reason, pointer, count] = data.undone[index];
    find("#i-title").textContent = `Taken back, ${index + 1} of ${data.undone.length}`;
    text.className = "gone"; text.textContent = visible(said);
    place.textContent = (pointer === null ? "" : `${pointer || "the root"} · `) + reason;
    facts.replaceChildren(...(count ? [fact("tokens", String(count))] : [])); others.replaceChildren();
    wanted.textContent = "";
    light(pointer, index);
  }
  const within = (place, outer) => place === outer || place.startsWith(outer + "/");
  const lines = all(".schema [data-s]"), schema = find(".schema .lines");
  function light(pointer, undone, refusing = []) {
    const parts = data.parts[pointer] ?? [];
    let first = null;
    for (const line of lines) {
      line.classList.toggle("lit", parts.includes(line.dataset.s));
      const place = line.dataset.j, whole = line.dataset.w !== undefined;
      line.classList.toggle("no", refusing.some((rule) => within(place, rule) || (whole && within(rule, place))));
      if (line.matches(".no") ? !first?.matches(".no") : !first && line.matches(".lit")) first = line;
    }
    if (first && (first.offsetTop < schema.scrollTop || first.offsetTop > schema.scrollTop + schema.clientHeight - 40))
      schema.scrollTop = first.offsetTop - schema.clientHeight / 3;
    for (const row of all(".tree [data-p]")) row.classList.toggle("lit", pointer !== null && row.dataset.p === pointer);
    for (const row of all(".back [data-u]")) row.classList.toggle("lit", Number(row.dataset.u) === undone);
  }
  function show(stop) { stop.dataset.u === undefined ? showToken(Number(stop.dataset.t)) : showUndone(Number(stop.dataset.u)); }
  function select(stop, focus) {
    if (current) { current.setAttribute("aria-selected", "false"); current.tabIndex = -1; }
    for (const bar of all("svg.bars rect.lit")) bar.classList.remove("lit");
    current = stop; stop.setAttribute("aria-selected", "true"); stop.tabIndex = 0;
    if (stop.dataset.t !== undefined)
      for (const bar of all(`svg.bars [data-t="${stop.dataset.t}"]`)) bar.classList.add("lit");
    if (focus) stop.focus();
    show(stop);
  }
  box.addEventListener("click", (event) => { const stop = event.target.closest("[role=option]"); if (stop) select(stop, true); });
  box.addEventListener("focusin", (event) => { const stop = event.target.closest("[role=option]"); if (stop && stop !== current) select(stop, false); });
  box.addEventListener("mouseover", (event) => { const stop = event.target.closest("[role=option]"); if (stop) show(stop); });
  box.addEventListener("mouseleave", () => { if (current) show(current); });
  box.addEventListener("keydown", (event) => {
    const at = stops.indexOf(current), last = stops.length - 1;
    const next = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    select(stops[Math.max(0, Math.min(last, next))], true);
  });
  for (const line of lines) {
    const mark = (on) => spans.forEach((span, index) =>
      span.classList.toggle("lit", on && (data.parts[data.tokens[index][2]] ?? []).includes(line.dataset.s)));
    line.addEventListener("mouseenter", () => mark(true));
    line.addEventListener("mouseleave", () => mark(false));
  }
  for (const row of all(".tree [data-p]")) {
    const inside = (pointer) => pointer !== null && within(pointer, row.dataset.p);
    const mark = (on) => spans.forEach((span, index) => span.classList.toggle("lit", on && inside(data.tokens[index][2])));
    for (const [event, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]])
      row.addEventListener(event, () => mark(on));
    row.addEventListener("click", () => {
      const first = spans.find((span, index) => inside(data.tokens[index][2]));
      if (first) select(first, true);
    });
  }
  for (const bar of all("svg.bars [data-t]")) bar.addEventListener("click", () => select(spans[Number(bar.dataset.t)], true));
  for (const row of all(".back [data-u]")) row.addEventListener("click", () => {
    const stop = box.querySelector(`[data-u="${row.dataset.u}"]`); if (stop) select(stop, true);
  });
  const removed = data.tokens.map((token) => token[6] ?? -1);
  if (spans.length) select(spans[Math.max(0, removed.indexOf(removed.reduce((a, b) => Math.max(a, b), -1)))], false);
})();
