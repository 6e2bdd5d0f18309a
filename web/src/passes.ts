// What each pass changed, function by function.

import { diff } from "./diff";
import { Choice, el } from "./dom";
import type { Change, PassRun } from "./facts";
import type { Page, View } from "./page";

const AROUND = 4;

/** Rows of a difference: `around` lines beside changes, the rest folded; all of them where it is Infinity. */
export function diffRows(page: Page, before: number | null, after: number | null, around: number): HTMLElement[] {
  const rows = diff(page.text(before), page.text(after));
  const near = new Uint8Array(rows.length);
  rows.forEach((row, i) => {
    if (row.sign !== " ") near.fill(1, Math.max(0, i - Math.min(around, i)), Math.min(rows.length, i + around + 1));
  });
  if (around === Infinity) near.fill(1);
  const made: HTMLElement[] = [];
  let folded = 0;
  const unfold = () => {
    if (folded) made.push(el("div", { class: "more" }, `\u22ef ${folded} equal lines`));
    folded = 0;
  };
  rows.forEach((row, i) => {
    if (!near[i]) return void folded++;
    unfold();
    const kind = row.sign === "+" ? "added" : row.sign === "-" ? "removed" : "";
    made.push(el("div", { class: `line ${kind}` }, `${row.sign} ${page.line(row.line)}`));
  });
  unfold();
  return made;
}

function sign(change: Change): string {
  return change.before === null ? "+" : change.after === null ? "-" : "\u2260";
}

export function passesView(page: Page): View {
  const code = el("div", { class: "code", tabindex: 0, "aria-label": "what the pass changed" });
  let shown: PassRun[] = [];
  let changes: Change[] = [];
  const functions = new Choice("functions that the pass changed", (i) => {
    const change = changes[i]!;
    code.replaceChildren(...diffRows(page, change.before, change.after, AROUND));
  });
  const passes = new Choice("passes", (i) => {
    changes = shown[i]!.changes;
    functions.fill(changes.map((change) => el("div", {}, `${sign(change)} ${change.function}`)));
    code.replaceChildren(el("div", { class: "more" }, changes.length ? "" : "the pass changed nothing"));
    functions.choose(0);
  });
  const only = el("input", { type: "checkbox", change: () => fill() });
  only.checked = true;
  const fill = () => {
    shown = page.facts.passes.filter((run) => !only.checked || run.changes.length);
    passes.fill(shown.map((run) => el("div", {}, el("b", {}, run.name), ` ${run.changes.length} changed, ${(run.seconds * 1e3).toFixed(0)} ms`)));
    passes.choose(0);
  };
  fill();
  const bar = el("div", { class: "bar" }, el("label", {}, only, "only passes that changed something"), `${page.facts.passes.length} passes ran`);
  return {
    name: "passes",
    title: "Passes",
    element: el("div", { class: "column" }, bar, el("div", { class: "thirds" }, passes.element, functions.element, code)),
    shown: () => passes.element.focus(),
  };
}
