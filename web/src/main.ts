// The page: unpacks its facts, makes the views, and hands keys to the one that is seen.

import { el } from "./dom";
import { VERSION, type Facts } from "./facts";
import { graphView } from "./graph";
import { memoryView } from "./memory";
import { Page, type View } from "./page";
import { passesView } from "./passes";
import { replayView } from "./replay";
import { rooflineView } from "./roofline";
import { timeView } from "./time";

const KEYS: [string, string][] = [
  ["1 \u2026 6", "views"], ["/", "search nodes; Enter goes to the next one found, Escape back to the graph"],
  ["\u2191 \u2193", "in the graph: along an edge; in a list: the row above or below"],
  ["\u2190 \u2192", "the node, call or step before or behind"], ["Shift + arrows", "move the graph"], ["+ \u2212 0", "larger, smaller, all of it"],
  ["t", "light or dark"], ["?", "this list"],
];

async function unpacked(id: string): Promise<string> {
  const text = document.getElementById(id)?.textContent ?? "";
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function help(): HTMLDialogElement {
  const rows = KEYS.map(([key, what]) => el("tr", {}, el("th", {}, key), el("td", {}, what)));
  const dialog = el("dialog", { "aria-label": "keys" }, el("table", {}, ...rows), el("button", { click: () => dialog.close() }, "close"));
  return dialog;
}

function turnTheme(views: View[], current: () => View): void {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const root = document.documentElement;
  root.dataset.theme = (root.dataset.theme ?? (isDark ? "dark" : "light")) === "dark" ? "light" : "dark";
  if (views.includes(current())) current().shown?.();
}

function start(facts: Facts, layout: string): void {
  const page = new Page(facts);
  const graph = graphView(page, layout);
  const views: View[] = [graph, passesView(page), timeView(page), memoryView(page), rooflineView(page), replayView(page)];
  const body = el("div", { class: "view" });
  const tabs = views.map((view, i) => el("button", { role: "tab", "data-view": view.name, click: () => show(i) }, `${i + 1} ${view.title}`));
  let current = views[0]!;
  const show = (index: number) => {
    current = views[index]!;
    tabs.forEach((tab, i) => tab.setAttribute("aria-selected", String(i === index)));
    body.replaceChildren(current.element);
    current.shown?.();
  };
  page.onSelect(() => current.selected?.());
  const dialog = help();
  const theme = () => turnTheme(views, () => current);
  const title = [facts.model, facts.target, facts.precision].filter(Boolean).join("  \u00b7  ");
  const notes = el("div", { class: "notes" }, ...facts.notes.map((note) => el("p", {}, note)));
  const main = document.getElementById("heddle")!;
  const header = el("header", { class: "top" }, el("h1", { title }, title),
    el("nav", { role: "tablist" }, ...tabs), el("button", { click: theme, "aria-label": "light or dark" }, "\u25d0"), el("button", { click: () => dialog.showModal(), "aria-label": "keys" }, "?"));
  main.replaceChildren(header, notes, body, dialog);
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const number = Number(event.key) - 1;
    if (event.key >= "1" && views[number]) show(number);
    else if (event.key === "/") {
      show(0);
      graph.search.focus();
    } else if (event.key === "?") dialog.showModal();
    else if (event.key === "t") theme();
    else if (!current.key?.(event)) return;
    event.preventDefault();
  });
  show(0);
  main.dataset.ready = "yes";
}

async function begin(): Promise<void> {
  const main = document.getElementById("heddle")!;
  try {
    const facts = JSON.parse(await unpacked("heddle-facts")) as Facts;
    if (facts.version !== VERSION) throw new Error(`facts of version ${facts.version}, expected ${VERSION}`);
    start(facts, await unpacked("heddle-layout"));
  } catch (error) {
    main.replaceChildren(el("p", { class: "notes" }, `The page cannot be shown: ${String(error)}`));
    main.dataset.ready = "failed";
    throw error;
  }
}

void begin();
