// Elements, always with text nodes: nothing from a model is ever read as markup.

type Child = Node | string;
type Attributes = Record<string, string | number | boolean | EventListener>;

function filled<T extends Element>(made: T, attributes: Attributes, children: Child[]): T {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function bytes(count: number | null): string {
  if (count === null) return "?";
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const)
    if (count >= size) return `${(count / size).toFixed(count >= 10 * size ? 0 : 1)} ${unit}`;
  return `${count} B`;
}

export function micros(us: number): string {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(us >= 10 ? 0 : 2)} \u00b5s`;
}

/** A hue for a name, the same each time. */
export function hue(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return hash % 360;
}

/** A color of the theme that is shown. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** A list with one chosen row: arrows, Home and End move the choice. */
export class Choice {
  readonly element: HTMLElement;
  private rows: HTMLElement[] = [];
  index = -1;

  constructor(label: string, private readonly chosen: (index: number) => void) {
    this.element = el("div", { class: "choice", role: "listbox", tabindex: 0, "aria-label": label });
    this.element.addEventListener("keydown", (event) => {
      const steps: Record<string, number> = {
        ArrowDown: this.index + 1, ArrowUp: this.index - 1, Home: 0, End: this.rows.length - 1,
      };
      const next = steps[event.key];
      if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(Math.max(0, Math.min(this.rows.length - 1, next)));
    });
  }

  fill(rows: HTMLElement[]): void {
    this.index = -1;
    this.rows = rows;
    rows.forEach((row, i) => {
      row.setAttribute("role", "option");
      row.addEventListener("click", () => this.choose(i));
    });
    this.element.replaceChildren(...rows);
  }

  choose(index: number): void {
    if (!this.rows[index]) return;
    this.rows[this.index]?.removeAttribute("aria-selected");
    this.index = index;
    this.rows[index].setAttribute("aria-selected", "true");
    this.rows[index].scrollIntoView({ block: "nearest" });
    this.chosen(index);
  }
}
