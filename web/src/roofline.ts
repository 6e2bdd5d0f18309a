// Kernels against what the machine can do: arithmetic intensity and speed, and what would help each.

import uPlot from "uplot";
import { bytes, color, el, micros } from "./dom";
import type { KernelPoint, Roofline } from "./facts";
import { axes } from "./memory";
import type { Page, View } from "./page";

interface Point { x: number; y: number; kernel: number }

function pointsOf(roofline: Roofline): Point[] {
  const points: Point[] = [];
  roofline.kernels.forEach((kernel, i) => {
    if (kernel.flops && kernel.size_bytes && kernel.time_us) points.push({ x: kernel.flops / kernel.size_bytes, y: kernel.flops / kernel.time_us / 1e3, kernel: i });
  });
  return points;
}

/** Points and roofs over one sorted axis. */
function dataOf(roofline: Roofline, points: Point[]): { data: uPlot.AlignedData; at: (Point | undefined)[] } {
  const rates = roofline.bandwidths.map(([, rate]) => rate);
  const roofs = [rates[rates.length - 1] ?? 0, Math.max(0, ...rates)];
  const xs = points.map((point) => point.x);
  const low = Math.min(0.05, ...xs) / 1.5;
  const high = Math.max(200, ...xs) * 1.5;
  const grid = Array.from({ length: 60 }, (_, i) => low * (high / low) ** (i / 59));
  const corners = roofs.filter((rate) => rate > 0).map((rate) => roofline.gflops / rate);
  const all: { x: number; point?: Point }[] = [...points.map((point) => ({ x: point.x, point })), ...[...grid, ...corners].map((x) => ({ x }))];
  all.sort((a, b) => a.x - b.x);
  const roof = (rate: number) => all.map(({ x }) => Math.min(roofline.gflops, rate * x));
  return { data: [all.map(({ x }) => x), all.map(({ point }) => point?.y ?? null), roof(roofs[0]!), roof(roofs[1]!)], at: all.map(({ point }) => point) };
}

function share(kernel: KernelPoint): string {
  return kernel.time_us ? `${Math.round((100 * kernel.least_us) / kernel.time_us)}%` : "";
}

export function rooflineView(page: Page): View {
  const roofline = page.facts.roofline;
  if (!roofline) return { name: "roofline", title: "Roofline", element: el("div", { class: "column" }, el("p", { class: "notes" }, "Nothing was run.")) };
  const chart = el("div", { class: "chart" });
  const status = el("output", { class: "status" });
  const rows: HTMLElement[] = [];
  let current = -1;
  const choose = (index: number) => {
    const kernel = roofline.kernels[index];
    if (!kernel) return;
    rows[current]?.removeAttribute("aria-selected");
    rows[(current = index)]?.setAttribute("aria-selected", "true");
    rows[index]?.scrollIntoView({ block: "nearest" });
    status.replaceChildren(`${kernel.name}: ${kernel.advice}`);
    page.select(page.setOfKernel(kernel.name), kernel.name);
    plot?.redraw();
  };
  const head = ["kernel", "calls", "all calls", "one call", "of roofline", "bound by", "GFLOP/s", "bytes", "rule", "advice", "gain"];
  const table = el("table", { class: "facts" }, el("thead", {}, el("tr", {}, ...head.map((name) => el("th", {}, name)))));
  const body = el("tbody", { tabindex: 0, "aria-label": "kernels" });
  roofline.kernels.forEach((kernel, i) => {
    const speed = kernel.flops && kernel.time_us ? (kernel.flops / kernel.time_us / 1e3).toFixed(1) : "";
    const cells = [kernel.name, String(kernel.count), micros(kernel.time_us * kernel.count), micros(kernel.time_us), share(kernel), kernel.is_memory_bound ? "bandwidth" : kernel.least_us ? "arithmetic" : "", speed, bytes(kernel.size_bytes), kernel.rule, kernel.advice, micros(kernel.gain_us)];
    const operators = `${kernel.operators.join(", ")}\n${kernel.shapes.map((shape) => `(${shape.join(", ")})`).join(" ")}`;
    const row = el("tr", { "data-kernel": kernel.name, title: operators, click: () => choose(i) }, ...cells.map((cell) => el("td", {}, cell)));
    rows.push(row);
    body.append(row);
  });
  table.append(body);
  const points = pointsOf(roofline);
  const { data, at } = dataOf(roofline, points);
  let plot: uPlot | undefined;
  const draw = () => {
    plot?.destroy();
    const [first, second] = axes("operations a byte", "GFLOP/s");
    const roof = (label: string, dash: number[]) => ({ label, stroke: color("dim"), dash, points: { show: false } });
    plot = new uPlot({
      width: Math.max(chart.clientWidth, 300), height: 380, scales: { x: { time: false, distr: 3 }, y: { distr: 3 } }, axes: [first!, second!],
      series: [{ label: "operations a byte" }, { label: "kernel", stroke: color("accent"), paths: () => null, points: { show: true, size: 9, fill: color("lit") } }, roof("memory", []), roof("caches", [5, 4])],
      hooks: { draw: [(chart) => {
        const index = at.findIndex((point) => point?.kernel === current);
        if (index < 0) return;
        const pen = chart.ctx;
        pen.beginPath();
        pen.strokeStyle = color("mark");
        pen.lineWidth = 3;
        pen.arc(chart.valToPos(at[index]!.x, "x", true), chart.valToPos(at[index]!.y, "y", true), 10, 0, 7);
        pen.stroke();
      }] },
    }, data, chart);
    plot.over.addEventListener("click", () => {
      const left = plot!.cursor.left ?? -1;
      const top = plot!.cursor.top ?? -1;
      const near = points.map((point) => ({ point, far: Math.hypot(plot!.valToPos(point.x, "x") - left, plot!.valToPos(point.y, "y") - top) })).sort((a, b) => a.far - b.far)[0];
      if (near && near.far < 30) choose(near.point.kernel);
    });
  };
  const advice = el("ol", {}, ...roofline.advice.map((text) => el("li", {}, text)));
  return {
    name: "roofline",
    title: "Roofline",
    element: el("div", { class: "column" }, el("div", { class: "bar" }, `${roofline.kernels.length} kernels; the machine reaches ${roofline.gflops.toFixed(0)} GFLOP/s`, status), chart, el("h2", {}, "What would help most"), advice, table),
    shown: draw,
    key(event) {
      if (event.key === "ArrowDown" || event.key === "ArrowRight") choose(Math.min(current + 1, roofline.kernels.length - 1));
      else if (event.key === "ArrowUp" || event.key === "ArrowLeft") choose(Math.max(current - 1, 0));
      else return false;
      return true;
    },
  };
}
