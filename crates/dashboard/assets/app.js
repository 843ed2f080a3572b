// Keeps an open page current and lets it be used by keys. Without it every page can be read and every form sent.
"use strict";

(() => {
  const main = () => document.getElementById("main");
  if (!document.body.dataset.live) return;

  // What the reader has opened, chosen or begun to write survives a new version of the page.
  const open = new Map();
  const remember = () => document.querySelectorAll("details[data-fold]").forEach((one) => open.set(one.dataset.fold, one.open));
  const restore = (page) => page.querySelectorAll("details[data-fold]").forEach((one) => {
    if (open.has(one.dataset.fold)) one.open = open.get(one.dataset.fold);
  });
  const isWriting = () => [...main().querySelectorAll("input.words, input[type=search]")].some((one) => one.value !== one.defaultValue || one === document.activeElement);
  const chosen = () => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && main().contains(selection.anchorNode);
  };

  let stale = false;
  let busy = false;
  async function renew() {
    if (busy) { stale = true; return; }
    if (isWriting() || chosen()) { offer(); return; }
    busy = true;
    stale = false;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (answer.status === 401) { location.reload(); return; }
      const text = await answer.text();
      // Asked last: the reader may have begun to write while the page was on its way.
      if (answer.ok && !isWriting()) show(new DOMParser().parseFromString(text, "text/html"));
    } catch {
      // The daemon is away: the page stays as it was, and the connection tries again by itself.
    } finally {
      busy = false;
      if (stale) renew();
    }
  }

  function show(page) {
    const fresh = page.getElementById("main");
    if (!fresh) return;
    remember();
    restore(fresh);
    const focused = document.activeElement && document.activeElement.id;
    const flash = main().querySelector(".flash");
    const scrolls = [...main().querySelectorAll(".timeline, .log, .diff")].map((one) => one.scrollTop);
    if (flash && !fresh.querySelector(".flash")) fresh.prepend(flash);
    main().replaceWith(fresh);
    [...fresh.querySelectorAll(".timeline, .log, .diff")].forEach((one, at) => { if (scrolls[at]) one.scrollTop = scrolls[at]; });
    for (const part of ["header.top", "footer"]) {
      const old = document.querySelector(part);
      const next = page.querySelector(part);
      if (old && next) old.replaceWith(next);
    }
    document.title = page.title;
    if (focused && focused !== "main") document.getElementById(focused)?.focus({ preventScroll: true });
    document.querySelector(".stale")?.remove();
    document.body.dataset.renewed = String(Date.now());
  }

  function offer() {
    if (document.querySelector(".stale")) return;
    const button = document.createElement("button");
    button.className = "main stale";
    button.textContent = "Something changed: show it";
    button.addEventListener("click", () => location.reload());
    document.body.append(button);
  }

  const events = new EventSource("/events");
  let wasOpen = false;
  events.addEventListener("changed", renew);
  events.addEventListener("open", () => {
    document.body.dataset.connected = "yes";
    // What happened while there was no connection was not told.
    if (wasOpen) renew();
    wasOpen = true;
  });
  events.addEventListener("error", () => { delete document.body.dataset.connected; });

  function words(seconds) {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, "0")} min`;
    return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
  }
  setInterval(() => document.querySelectorAll("time[data-ago]").forEach((one) => {
    const text = `${words(Math.max(0, Math.floor((Date.now() - Date.parse(one.dateTime)) / 1000)))} ago`;
    if (one.textContent !== text) one.textContent = text;
  }), 5000);

  // A second click while the first is under way would only be refused.
  document.addEventListener("submit", (event) => {
    const button = event.target.querySelector("button[type=submit]");
    if (event.target.method === "post" && button) setTimeout(() => { button.disabled = true; }, 0);
  });
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || at.matches("input, textarea, select")) return;
    const page = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (page) { page.click(); return; }
    if (event.key === "/") {
      const field = document.getElementById("q");
      event.preventDefault();
      if (field) field.focus(); else location.assign("/history");
      return;
    }
    const step = { j: 1, k: -1 }[event.key];
    if (!step) return;
    const cards = [...document.querySelectorAll("article.card, .runs .run")];
    const here = cards.findIndex((card) => card.contains(document.activeElement));
    const next = cards[Math.min(cards.length - 1, Math.max(0, here + step))];
    if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  });
})();
