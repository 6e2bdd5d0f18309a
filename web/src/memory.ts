// Memory: the plan's storages as rectangles over the bindings of a function, and bytes on loan over time.

import uPlot from "uplot";
import { bytes, color, el, hue, micros, svg } from "./dom";
import type { MemoryPlan, Placed, PlannedStorage } from "./facts";
import type { Page, View } from "./page";

const WIDTH = 1000;
const LEAST = 5;
const UNKNOWN = 18;

function sizeText(storage: PlannedStorage): string {
  return storage.size_bytes === null ? storage.size || "a size of the data's" : bytes(storage.size_bytes);
}

function drawn(page: Page, plan: MemoryPlan, say: (text: string) => void): SVGSVGElement {
  const known = plan.storages.map((storage) => storage.size_bytes ?? 0);
  const total = Math.max(known.reduce((sum, size) => sum + size, 0), 1);
  const scale = 420 / total;
  const x = (position: number) => (position / Math.max(plan.num_bindings, 1)) * WIDTH;
  const picture = svg("svg", { class: "plan", role: "img", "aria-label": `memory plan of ${plan.function}`, preserveAspectRatio: "none" });
  let top = 0;
  const choose = (tensor: Placed | undefined, storage: PlannedStorage) => () => {
    if (tensor) page.select(tensor.set);
    say(`${storage.name}: ${sizeText(storage)}${tensor ? `; ${tensor.name}: ${tensor.type} at ${tensor.offset_bytes ?? "?"}` : ""}`);
  };
  for (const storage of plan.storages) {
    const height = storage.size_bytes === null ? UNKNOWN : Math.max(storage.size_bytes * scale, LEAST);
    picture.append(svg("rect", { class: `storage${storage.size_bytes === null ? " unknown" : ""}`, x: x(storage.first), y: top, width: Math.max(x(storage.last + 1) - x(storage.first), 1), height, click: choose(undefined, storage) }, svg("title", {}, `${storage.name}: ${sizeText(storage)}`)));
    for (const tensor of storage.tensors) {
      const part = storage.size_bytes && tensor.size_bytes !== null ? tensor.size_bytes / storage.size_bytes : 1;
      const offset = storage.size_bytes && tensor.offset_bytes !== null ? tensor.offset_bytes / storage.size_bytes : 0;
      picture.append(svg("rect", {
        class: `tensor${page.shared(tensor.set) ? " lit" : ""}`, style: `--hue:${hue(tensor.name)}`, x: x(tensor.first), y: top + offset * height,
        width: Math.max(x(tensor.last + 1) - x(tensor.first) - 0.5, 1), height: Math.max(Math.min(part, 1) * height - 0.5, 1), "data-tensor": tensor.name, click: choose(tensor, storage),
      }, svg("title", {}, `${tensor.name}: ${tensor.type}\n${bytes(tensor.size_bytes)} in ${storage.name} (${sizeText(storage)})`)));
    }
    top += height + 3;
  }
  picture.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.max(top, 1)}`);
  picture.style.height = `${Math.min(Math.max(top, 60), 900)}px`;
  return picture;
}

export function axes(x: string, y: string): uPlot.Axis[] {
  const common = { stroke: color("text"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line") } };
  return [{ ...common, label: x }, { ...common, label: y, size: 70 }];
}

export function memoryView(page: Page): View {
  const { plans, run } = page.facts;
  const status = el("output", { class: "status" });
  const say = (text: string) => status.replaceChildren(text);
  const pick = el("select", { "aria-label": "function" });
  for (const plan of plans) pick.append(el("option", {}, plan.function));
  const picture = el("div", { class: "picture" });
  const chart = el("div", { class: "chart" });
  const facts = el("span");
  const show = () => {
    const plan = plans[pick.selectedIndex];
    if (plan) {
      picture.replaceChildren(drawn(page, plan, say));
      const sum = plan.storages.reduce((total, storage) => total + (storage.size_bytes ?? 0), 0);
      const unknown = plan.storages.filter((storage) => storage.size_bytes === null).length;
      facts.replaceChildren(`${plan.storages.length} storages of ${bytes(sum)}${unknown ? ` and ${unknown} of unknown size` : ""}; peak: ${plan.peak || "not known"}`);
    } else picture.replaceChildren(el("p", { class: "notes" }, "No function allocates by a plan."));
  };
  const plot = () => {
    chart.replaceChildren();
    if (!run?.memory.length) return;
    const data: uPlot.AlignedData = [run.memory.map(([at]) => at / 1e3), run.memory.map(([, size]) => size / 2 ** 20)];
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    new uPlot({
      width: Math.max(chart.clientWidth, 300), height: 260, scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, high * 1.05] } }, axes: axes("ms", "MiB on loan"),
      series: [{ label: "ms" }, { label: "MiB", stroke: color("accent"), fill: color("lit"), ...(stepped ? { paths: stepped } : {}) }],
    }, data, chart);
  };
  pick.addEventListener("change", show);
  const peak = run ? `in the run: peak ${bytes(run.peak_bytes)} on loan, ${micros(run.duration_us)}` : "nothing was run";
  return {
    name: "memory",
    title: "Memory",
    element: el("div", { class: "column" }, el("div", { class: "bar" }, pick, facts, status), picture, el("h2", {}, peak), chart),
    shown() {
      show();
      plot();
    },
    selected: show,
  };
}
