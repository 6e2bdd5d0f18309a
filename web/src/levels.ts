// All levels side by side. A click on a line selects the places that it comes from.

import { Choice, el } from "./dom";
import type { Level, Listing } from "./facts";
import type { Page } from "./page";

const MOST_LINES = 6000;

class Pane {
  readonly element: HTMLElement;
  private readonly pick: HTMLSelectElement;
  private readonly code: HTMLElement;
  private rows: HTMLElement[] = [];
  private sets: number[] = [];
  private listing: Listing | undefined;

  constructor(private readonly page: Page, private readonly level: Level) {
    this.pick = el("select", { "aria-label": `function at level ${level.name}`, change: () => this.show(this.level.functions[this.pick.selectedIndex]) });
    for (const listing of level.functions) this.pick.append(el("option", {}, listing.name));
    this.code = el("div", { class: "code", tabindex: 0, role: "listbox", "aria-label": level.name });
    this.code.addEventListener("click", (event) => this.clicked(event.target as HTMLElement));
    this.element = el("section", { class: "pane", "data-level": level.name }, el("header", {}, el("b", {}, level.name), this.pick), this.code);
    this.show(level.functions[0]);
  }

  private show(listing: Listing | undefined): void {
    this.listing = listing;
    if (!listing) return;
    this.pick.selectedIndex = this.level.functions.indexOf(listing);
    const lines = this.page.text(listing.text);
    this.sets = new Array<number>(lines.length).fill(-1);
    for (const mark of listing.marks) this.sets.fill(mark.set, mark.first, mark.last + 1);
    this.rows = lines.slice(0, MOST_LINES).map((line, i) => el("div", { class: "line", "data-line": i }, this.page.line(line) || " "));
    if (lines.length > MOST_LINES) this.rows.push(el("div", { class: "more" }, `${lines.length - MOST_LINES} lines more`));
    this.code.replaceChildren(...this.rows);
    this.mark(false);
  }

  private clicked(target: HTMLElement): void {
    const row = target.closest<HTMLElement>(".line");
    if (!row || !this.listing || getSelection()?.toString()) return;
    const set = this.sets[Number(row.dataset.line)];
    this.page.select(set === undefined || set < 0 ? this.listing.set : set, this.listing.kernel);
  }

  /** Show the function that the selection lies in. */
  follow(): void {
    const best = this.page.best(this.level.functions);
    const here = this.listing && this.page.shared(this.listing.set) && (!this.page.kernel || !this.listing.kernel || this.listing.kernel === this.page.kernel);
    if (best && best !== this.listing && (!here || best.kernel === this.page.kernel)) this.show(best);
    this.mark(true);
  }

  private mark(scrolls: boolean): void {
    let first: HTMLElement | undefined;
    this.rows.forEach((row, i) => {
      const set = this.sets[i] ?? -1;
      const lit = set >= 0 && this.page.shared(set) > 0;
      row.classList.toggle("lit", lit);
      if (lit && !first) first = row;
    });
    const whole = !first && this.listing !== undefined && this.page.shared(this.listing.set) > 0;
    this.element.classList.toggle("lit", whole || first !== undefined);
    if (scrolls && first) this.code.scrollTop = first.offsetTop - this.code.offsetTop - this.code.clientHeight / 3;
  }
}

export function levels(page: Page): { element: HTMLElement; follow(): void } {
  const panes = new Map<string, Pane>();
  const shown = new Set(["model", "relax", "scheduled", "bytecode"]);
  const row = el("div", { class: "panes" });
  const bar = el("div", { class: "bar", role: "toolbar", "aria-label": "levels" });
  const fill = () => {
    const found = page.facts.levels.filter((level) => shown.has(level.name));
    row.replaceChildren(...found.map((level) => {
      let pane = panes.get(level.name);
      if (!pane) panes.set(level.name, (pane = new Pane(page, level)));
      pane.follow();
      return pane.element;
    }));
  };
  for (const level of page.facts.levels) {
    const box = el("input", { type: "checkbox", "data-show": level.name, change: () => {
      if (box.checked) shown.add(level.name);
      else shown.delete(level.name);
      fill();
    } });
    box.checked = shown.has(level.name);
    bar.append(el("label", {}, box, level.name));
  }
  fill();
  const follow = () => page.facts.levels.forEach((level) => shown.has(level.name) && panes.get(level.name)?.follow());
  return { element: el("div", { class: "levels" }, bar, row), follow };
}

/** A list of the places that are selected. */
export function selection(page: Page): HTMLElement {
  const list = new Choice("selected places", () => undefined);
  const fill = () => list.fill([...page.places].map((place) => el("div", {}, page.facts.places[place] ?? "")));
  page.onSelect(fill);
  return list.element;
}
