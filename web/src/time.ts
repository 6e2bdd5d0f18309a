// The time line of a run: a row of bars for each thread, with the gaps between calls; wheel and keys zoom and pan.

import { Choice, color, el, hue, micros } from "./dom";
import type { RunFacts, Span } from "./facts";
import type { Page, View } from "./page";

const LANE = 20;
const HEAD = 22;
const LABEL = 14;
const MOST_GAPS = 50;

interface Lane { label: string; thread: number; depth: number; top: number }
interface Gap { start: number; length: number; after: string; before: string }

/** Times in which a function of the program runs and none of its calls does, in the thread of the machine. */
export function gapsOf(spans: Span[]): Gap[] {
  const calls = spans.filter((span) => span.thread === 0 && !span.is_function).sort((a, b) => a.start_us - b.start_us);
  const gaps: Gap[] = [];
  let end = 0;
  let after = "the start";
  for (const span of calls) {
    if (span.start_us > end) gaps.push({ start: end, length: span.start_us - end, after, before: span.name });
    if (span.start_us + span.duration_us >= end) [end, after] = [span.start_us + span.duration_us, span.name];
  }
  return gaps;
}

/** How much of the time in which parts of parallel loops run each thread runs one: "worker 1 81%". */
export function sharesOf(run: RunFacts): string {
  const parts = run.spans.filter((span) => span.thread > 0);
  let [whole, end] = [0, 0];
  for (const part of parts) { // in order of their start
    const last = part.start_us + part.duration_us;
    whole += Math.max(last - Math.max(part.start_us, end), 0);
    end = Math.max(end, last);
  }
  const busy = run.threads.map(() => 0);
  for (const part of parts) busy[part.thread] = (busy[part.thread] ?? 0) + part.duration_us;
  const shares = run.threads.slice(1).map((name, i) => `${name} ${Math.round((100 * (busy[i + 1] ?? 0)) / (whole || 1))}%`);
  return parts.length ? `; ${micros(whole)} in parallel loops, of which run: ${shares.join(", ")}` : "";
}

class Timeline {
  readonly canvas = el("canvas", { tabindex: 0, role: "application", "aria-label": "time line", class: "timeline" });
  private readonly lanes: Lane[] = [];
  private readonly end: number;
  private from = 0;
  private to: number;
  current = -1;

  constructor(private readonly page: Page, private readonly run: RunFacts, private readonly chosen: (index: number) => void) {
    const depths = run.threads.map(() => 0);
    for (const span of run.spans) depths[span.thread] = Math.max(depths[span.thread] ?? 0, span.depth);
    let top = HEAD;
    depths.forEach((most, thread) => {
      if (thread) top += LABEL;
      for (let depth = 0; depth <= most; depth++, top += LANE) this.lanes.push({ label: depth ? "" : (run.threads[thread] ?? ""), thread, depth, top });
      top += 4;
    });
    this.end = Math.max(run.duration_us, ...run.spans.slice(-1000).map((span) => span.start_us + span.duration_us), 1);
    this.to = this.end;
    this.canvas.style.height = `${top + 4}px`;
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / this.canvas.clientWidth);
      else this.zoom(Math.exp(event.deltaY / 500), event.offsetX / this.canvas.clientWidth);
    }, { passive: false });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) this.pan(-event.movementX / this.canvas.clientWidth);
      else this.canvas.title = this.describe(this.hit(event.offsetX, event.offsetY));
    });
    this.canvas.addEventListener("click", (event) => this.choose(this.hit(event.offsetX, event.offsetY)));
  }

  describe(index: number): string {
    const span = this.run.spans[index];
    return span ? `${span.name}: ${micros(span.duration_us)} at ${micros(span.start_us)}, ${this.run.threads[span.thread]}` : "";
  }

  choose(index: number, moves = false): void {
    const span = this.run.spans[index];
    if (!span) return;
    this.current = index;
    const width = this.to - this.from;
    if (moves && (span.start_us < this.from || span.start_us > this.to)) this.place(span.start_us - width / 2, width);
    this.page.select(span.set, span.name);
    this.chosen(index);
    this.draw();
  }

  private lane(span: Span): Lane | undefined {
    return this.lanes.find((lane) => lane.thread === span.thread && lane.depth === span.depth);
  }

  private hit(x: number, y: number): number {
    const time = this.from + (x / this.canvas.clientWidth) * (this.to - this.from);
    const lane = this.lanes.find((each) => y >= each.top && y < each.top + LANE);
    if (!lane) return -1;
    const slack = (2 * (this.to - this.from)) / this.canvas.clientWidth;
    return this.run.spans.findIndex((span) => span.thread === lane.thread && span.depth === lane.depth && time >= span.start_us - slack && time <= span.start_us + span.duration_us + slack);
  }

  zoom(by: number, at = 0.5): void {
    const width = Math.max(0.05, Math.min(this.end, (this.to - this.from) * by));
    this.place(this.from + (this.to - this.from - width) * at, width);
  }

  pan(part: number): void {
    this.place(this.from + part * (this.to - this.from), this.to - this.from);
  }

  show(start: number, length: number): void {
    this.place(start - length * 2, length * 5);
  }

  all(): void {
    this.place(0, this.end);
  }

  private place(from: number, width: number): void {
    this.from = Math.max(0, Math.min(from, this.end - width));
    this.to = this.from + width;
    this.draw();
  }

  draw(): void {
    const ratio = devicePixelRatio || 1;
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const pen = this.canvas.getContext("2d");
    if (!pen || !width) return;
    pen.scale(ratio, ratio);
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    const scale = width / (this.to - this.from);
    const isDark = color("scheme") === "dark";
    pen.fillStyle = color("dim");
    for (let i = 0; i <= 8; i++) pen.fillText(micros(this.from + ((this.to - this.from) * i) / 8), (width * i) / 8 + (i === 8 ? -60 : 2), 9);
    this.run.spans.forEach((span, i) => {
      const x = (span.start_us - this.from) * scale;
      const size = span.duration_us * scale;
      const lane = this.lane(span);
      if (!lane || x > width || x + size < 0) return;
      pen.fillStyle = span.is_function ? color("line") : `hsl(${hue(span.name)} 55% ${isDark ? 38 : 74}%)`;
      pen.fillRect(x, lane.top, Math.max(size, 0.75), LANE - 3);
      if (i === this.current || (this.page.shared(span.set) && !span.is_function)) {
        pen.strokeStyle = color("accent");
        pen.lineWidth = i === this.current ? 3 : 1.5;
        pen.strokeRect(x, lane.top, Math.max(size, 1.5), LANE - 3);
      }
      if (size < 40) return;
      pen.fillStyle = color("text");
      const left = Math.max(x, 0);
      const room = Math.floor((Math.min(x + size, width) - left - 6) / 6.7);
      if (room > 2) pen.fillText(span.name.length > room ? span.name.slice(0, room - 1) + "\u2026" : span.name, left + 3, lane.top + LANE / 2 - 1);
    });
    pen.fillStyle = color("dim");
    for (const lane of this.lanes) if (lane.label && lane.thread) pen.fillText(lane.label, 2, lane.top - LABEL / 2);
  }
}

export function timeView(page: Page): View {
  const run = page.facts.run;
  const element = el("div", { class: "column" });
  if (!run) {
    element.append(el("p", { class: "notes" }, "Nothing was run."));
    return { name: "time", title: "Time", element };
  }
  const status = el("output", { class: "status" });
  const line = new Timeline(page, run, (i) => status.replaceChildren(line.describe(i)));
  const gaps = gapsOf(run.spans);
  const longest = [...gaps].sort((a, b) => b.length - a.length).slice(0, MOST_GAPS);
  const sum = gaps.reduce((total, gap) => total + gap.length, 0);
  const list = new Choice("gaps between calls", (i) => line.show(longest[i]!.start, longest[i]!.length));
  list.fill(longest.map((gap) => el("div", {}, el("b", {}, micros(gap.length)), ` after ${gap.after}, before ${gap.before}`)));
  const dims = Object.entries(run.dims).map(([name, size]) => `${name}=${size}`).join(" ");
  const facts = `${run.function}${dims ? ` (${dims})` : ""}: ${micros(run.duration_us)}, ${run.spans.filter((span) => span.thread === 0).length} calls and functions, ${micros(run.dispatch_us)} outside of calls; ${gaps.length} gaps of ${micros(sum)} with the clock's own time${sharesOf(run)}`;
  const lost = [[run.num_dropped, "calls"], [run.num_dropped_parts, "parts of loops"]] as const;
  const dropped = lost.map(([count, what]) => (count ? `; ${count} ${what} more are not shown` : "")).join("");
  element.append(el("div", { class: "bar" }, el("span", {}, facts + dropped), status), line.canvas, el("h2", {}, "Longest gaps"), list.element);
  new ResizeObserver(() => line.draw()).observe(line.canvas);
  return {
    name: "time",
    title: "Time",
    element,
    shown: () => line.draw(),
    selected: () => line.draw(),
    key(event) {
      if (event.key === "ArrowRight" && event.shiftKey) line.pan(0.1);
      else if (event.key === "ArrowLeft" && event.shiftKey) line.pan(-0.1);
      else if (event.key === "ArrowRight") line.choose(Math.min(line.current + 1, run.spans.length - 1), true);
      else if (event.key === "ArrowLeft") line.choose(Math.max(line.current - 1, 0), true);
      else if (event.key === "+" || event.key === "=") line.zoom(0.8);
      else if (event.key === "-") line.zoom(1.25);
      else if (event.key === "0") line.all();
      else return false;
      return true;
    },
  };
}
