// The graph: laid out by ELK in a worker, drawn as SVG; zoom, pan, search, and keys that walk along edges.

import ELK from "elkjs/lib/elk-api.js";
import type { ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import { bytes, el, hue, svg } from "./dom";
import type { Graph, GraphNode } from "./facts";
import { levels } from "./levels";
import type { Page, View } from "./page";

const COMPOUND = { "elk.padding": "[top=24,left=8,bottom=8,right=8]" };
const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.json.shapeCoords": "ROOT",
  "elk.json.edgeCoords": "ROOT",
  "elk.layered.spacing.nodeNodeBetweenLayers": "28",
  "elk.spacing.nodeNode": "18",
};
const SHORT = 34;

function short(text: string): string {
  return text.length > SHORT ? text.slice(0, SHORT - 1) + "\u2026" : text;
}

function rowsOf(node: GraphNode): string[] {
  const rows = [short(node.kind === "param" || !node.label ? node.name : node.label)];
  if (node.type) rows.push(short(node.type));
  if (node.weight_bytes) rows.push(`weights ${bytes(node.weight_bytes)}`);
  return rows;
}

/** A tree for ELK: nodes in the nodes that they lie in, and nodes of one kernel in a box of their own. */
function tree(graph: Graph): ElkNode {
  const root: ElkNode = { id: "root", layoutOptions: OPTIONS, children: [], edges: [] };
  const made = graph.nodes.map((node, i): ElkNode => {
    const rows = rowsOf(node);
    return { id: `n${i}`, width: 18 + 7.2 * Math.max(...rows.map((row) => row.length)), height: 12 + 15 * rows.length };
  });
  const inside = (owner: ElkNode, child: ElkNode, options = COMPOUND) => {
    owner.layoutOptions ??= options;
    (owner.children ??= []).push(child);
  };
  const boxes = new Map<string, ElkNode>();
  const count = new Map<string, number>();
  const key = (node: GraphNode) => `${node.parent}/${node.group}`;
  for (const node of graph.nodes) if (node.group >= 0) count.set(key(node), (count.get(key(node)) ?? 0) + 1);
  graph.nodes.forEach((node, i) => {
    let owner = node.parent < 0 ? root : made[node.parent]!;
    if (node.group >= 0 && (count.get(key(node)) ?? 0) > 1) {
      let box = boxes.get(key(node));
      if (!box) {
        boxes.set(key(node), (box = { id: `g${boxes.size}`, labels: [{ text: graph.groups[node.group]!.kernel }] }));
        inside(owner, box);
      }
      owner = box;
    }
    inside(owner, made[i]!);
  });
  const isAbove = (a: number, b: number): boolean => {
    for (let node = b; node >= 0; node = graph.nodes[node]!.parent) if (node === a) return true;
    return false;
  };
  root.edges = graph.edges.filter(([a, b]) => !isAbove(a, b) && !isAbove(b, a))
    .map(([a, b], i): ElkExtendedEdge => ({ id: `e${i}`, sources: [`n${a}`], targets: [`n${b}`] }));
  return root;
}

class Drawing {
  readonly root = svg("svg", { tabindex: 0, role: "application", "aria-label": "graph", class: "graph" });
  private readonly scene = svg("g");
  private shapes: (SVGGElement | undefined)[] = [];
  private graph: Graph | undefined;
  private readonly laid = new Map<Graph, ElkNode>();
  private view = { x: 0, y: 0, scale: 1 };
  private size = { width: 1, height: 1 };
  current = -1;

  constructor(private readonly page: Page, private readonly elk: InstanceType<typeof ELK>, private readonly say: (text: string) => void) {
    this.root.append(svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "head" }))), this.scene);
    this.root.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.root.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 500), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let drag: PointerEvent | undefined;
    this.root.addEventListener("pointerdown", (event) => (drag = event));
    this.root.addEventListener("pointermove", (event) => {
      if (!drag || !event.buttons) return void (drag = undefined);
      this.pan(event.clientX - drag.clientX, event.clientY - drag.clientY);
      drag = event;
    });
  }

  async show(graph: Graph): Promise<void> {
    this.graph = graph;
    this.current = -1;
    this.scene.replaceChildren();
    this.say(`laying out ${graph.nodes.length} nodes \u2026`);
    let laid = this.laid.get(graph);
    if (!laid) {
      laid = await this.elk.layout(tree(graph));
      this.laid.set(graph, laid);
    }
    if (this.graph !== graph) return;
    this.size = { width: laid.width ?? 1, height: laid.height ?? 1 };
    this.draw(graph, laid);
    this.fit();
    this.mark();
    this.say(`${graph.nodes.length} nodes, ${graph.edges.length} edges, ${graph.groups.length} calls of kernels`);
  }

  private draw(graph: Graph, laid: ElkNode): void {
    this.shapes = [];
    const visit = (item: ElkNode): void => {
      for (const child of item.children ?? []) {
        const number = child.id.startsWith("n") ? Number(child.id.slice(1)) : -1;
        this.scene.append(number < 0 ? this.box(child) : this.node(graph.nodes[number]!, number, child));
        visit(child);
      }
    };
    visit(laid);
    for (const edge of laid.edges ?? [])
      for (const part of edge.sections ?? []) {
        const points = [part.startPoint, ...(part.bendPoints ?? []), part.endPoint];
        this.scene.append(svg("path", { class: "edge", "marker-end": "url(#arrow)", d: "M" + points.map((p) => `${p.x} ${p.y}`).join("L") }));
      }
  }

  private box(item: ElkNode): SVGGElement {
    const kernel = item.labels?.[0]?.text ?? "";
    const place = { x: item.x ?? 0, y: item.y ?? 0, width: item.width ?? 0, height: item.height ?? 0, rx: 6 };
    const shape = svg("g", { class: "group", "data-kernel": kernel },
      svg("rect", { ...place, style: `--hue:${hue(kernel)}` }),
      svg("text", { x: place.x + 8, y: place.y + 15 }, kernel), svg("title", {}, kernel));
    shape.addEventListener("click", () => this.page.select(this.page.setOfKernel(kernel), kernel));
    return shape;
  }

  private node(node: GraphNode, number: number, item: ElkNode): SVGGElement {
    const x = item.x ?? 0;
    const y = item.y ?? 0;
    const rows = rowsOf(node).map((row, i) => svg("text", { x: x + 9, y: y + 18 + 15 * i, class: `row${i}` }, row));
    const rect = svg("rect", { x, y, width: item.width ?? 0, height: item.height ?? 0, rx: 4 });
    const places = (this.page.facts.sets[node.set] ?? []).map((place) => this.page.facts.places[place]).join("\n");
    const shape = svg("g", { class: `node ${node.kind}`, "data-node": number }, rect, ...rows, svg("title", {}, `${node.name}\n${node.type}\n${places}`));
    shape.addEventListener("click", (event) => {
      event.stopPropagation();
      this.choose(number, false);
    });
    this.shapes[number] = shape;
    return shape;
  }

  choose(number: number, moves = true): void {
    const node = this.graph?.nodes[number];
    if (!this.graph || !node) return;
    this.current = number;
    this.page.select(node.set, node.group < 0 ? "" : this.graph.groups[node.group]!.kernel);
    this.say(`${node.name || node.label}: ${node.type}${node.weight_bytes ? `, weights ${bytes(node.weight_bytes)}` : ""}`);
    const shape = this.shapes[number];
    if (moves && shape) {
      const rect = shape.querySelector("rect")!;
      const box = this.root.getBoundingClientRect();
      this.view.scale = Math.max(this.view.scale, 0.6);
      this.view.x = box.width / 2 - (Number(rect.getAttribute("x")) + Number(rect.getAttribute("width")) / 2) * this.view.scale;
      this.view.y = box.height / 2 - (Number(rect.getAttribute("y")) + Number(rect.getAttribute("height")) / 2) * this.view.scale;
      this.apply();
    }
  }

  mark(): void {
    const graph = this.graph;
    this.shapes.forEach((shape, i) => {
      shape?.classList.toggle("lit", this.page.shared(graph!.nodes[i]!.set) > 0);
      shape?.classList.toggle("current", i === this.current);
    });
  }

  find(text: string): number[] {
    const wanted = text.toLowerCase();
    const nodes = this.graph?.nodes ?? [];
    const found = nodes.map((_, i) => i).filter((i) => {
      const node = nodes[i]!;
      const places = (this.page.facts.sets[node.set] ?? []).map((place) => this.page.facts.places[place]);
      const kernel = node.group < 0 ? "" : this.graph!.groups[node.group]!.kernel;
      return [node.name, node.label, node.type, kernel, ...places].some((part) => part?.toLowerCase().includes(wanted));
    });
    const hits = new Set(wanted ? found : []);
    this.shapes.forEach((shape, i) => shape?.classList.toggle("hit", hits.has(i)));
    return wanted ? found : [];
  }

  key(event: KeyboardEvent): boolean {
    const graph = this.graph;
    if (!graph) return false;
    const next = (edge: [number, number][], from: 0 | 1, to: 0 | 1) => edge.find((pair) => pair[from] === this.current)?.[to];
    const box = this.root.getBoundingClientRect();
    const middle = [box.width / 2, box.height / 2] as const;
    const pans: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    const pan = pans[event.key];
    if (pan && event.shiftKey) this.pan(...pan);
    else if (event.key === "ArrowDown") this.choose(next(graph.edges, 0, 1) ?? Math.max(this.current, 0));
    else if (event.key === "ArrowUp") this.choose(next(graph.edges, 1, 0) ?? Math.max(this.current, 0));
    else if (event.key === "ArrowRight") this.choose(Math.min(this.current + 1, graph.nodes.length - 1));
    else if (event.key === "ArrowLeft") this.choose(Math.max(this.current - 1, 0));
    else if (event.key === "+" || event.key === "=") this.zoom(1.25, ...middle);
    else if (event.key === "-") this.zoom(0.8, ...middle);
    else if (event.key === "0") this.fit();
    else return false;
    return true;
  }

  fit(): void {
    const box = this.root.getBoundingClientRect();
    const scale = Math.min(1, (box.width - 16) / this.size.width, (box.height - 16) / this.size.height);
    this.view.scale = Math.max(scale, 0.02);
    this.view.x = (box.width - this.size.width * this.view.scale) / 2;
    this.view.y = 8;
    this.apply();
  }

  private zoom(by: number, x: number, y: number): void {
    const scale = Math.max(0.02, Math.min(4, this.view.scale * by));
    this.view.x = x - ((x - this.view.x) * scale) / this.view.scale;
    this.view.y = y - ((y - this.view.y) * scale) / this.view.scale;
    this.view.scale = scale;
    this.apply();
  }

  private pan(x: number, y: number): void {
    this.view.x += x;
    this.view.y += y;
    this.apply();
  }

  private apply(): void {
    this.scene.setAttribute("transform", `translate(${this.view.x} ${this.view.y}) scale(${this.view.scale})`);
  }
}

export function graphView(page: Page, layout: string): View & { search: HTMLInputElement } {
  const worker = () => new Worker(URL.createObjectURL(new Blob([layout], { type: "text/javascript" })));
  const status = el("output", { class: "status" });
  const elk = new ELK({ workerFactory: worker });
  const drawing = new Drawing(page, elk, (text) => status.replaceChildren(text));
  const below = levels(page);
  const pick = el("select", { "aria-label": "graph function" });
  for (const graph of page.facts.graphs) pick.append(el("option", {}, graph.function));
  let hits: number[] = [];
  let at = 0;
  const search = el("input", { type: "search", placeholder: "search nodes  /", "aria-label": "search nodes" });
  search.addEventListener("input", () => {
    hits = drawing.find(search.value);
    at = 0;
    status.replaceChildren(search.value ? `${hits.length} found` : "");
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && hits.length) drawing.choose(hits[at++ % hits.length]!);
    if (event.key === "Escape") drawing.root.focus();
  });
  const show = () => {
    const graph = page.facts.graphs[pick.selectedIndex];
    if (!graph) return void status.replaceChildren("there is no graph: " + (page.facts.notes[0] ?? "the model has none"));
    drawing.show(graph).catch((error: unknown) => status.replaceChildren(`the graph has no layout: ${String(error)}`));
  };
  pick.addEventListener("change", show);
  let isFirst = true;
  const bar = el("div", { class: "bar" }, pick, search, status);
  const left = el("div", { class: "left" }, bar, drawing.root);
  return {
    name: "graph",
    title: "Graph and levels",
    search,
    element: el("div", { class: "split" }, left, below.element),
    shown() {
      if (isFirst) show();
      isFirst = false;
      below.follow();
      drawing.mark();
    },
    selected() {
      below.follow();
      drawing.mark();
    },
    key: (event) => (event.target instanceof Node && below.element.contains(event.target) ? false : drawing.key(event)),
  };
}
