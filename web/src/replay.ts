// How a schedule rule made the loops of a kernel, a step at a time.

import { Choice, el } from "./dom";
import { diffRows } from "./passes";
import type { Page, View } from "./page";

export function replayView(page: Page): View {
  const replays = page.facts.replays;
  const code = el("div", { class: "code", tabindex: 0, "aria-label": "loops after the step" });
  const status = el("output", { class: "status" });
  const pick = el("select", { "aria-label": "kernel" });
  for (const replay of replays) pick.append(el("option", {}, `${replay.kernel} (${replay.rule})`));
  const steps = new Choice("steps", (i) => {
    const replay = replays[pick.selectedIndex]!;
    const textAt = (step: number) => (step < 0 ? replay.start : replay.steps[step]!.text);
    code.replaceChildren(...diffRows(page, i ? textAt(i - 2) : replay.start, textAt(i - 1), Infinity));
    code.querySelector(".added, .removed")?.scrollIntoView({ block: "center" });
    status.replaceChildren(`step ${i} of ${replay.steps.length}`);
  });
  const show = () => {
    const replay = replays[pick.selectedIndex];
    if (!replay) return void status.replaceChildren("no rule scheduled anything");
    steps.fill(["the loops as they were", ...replay.steps.map((step) => step.instruction)].map((text) => el("div", { class: "mono" }, text)));
    steps.choose(0);
  };
  pick.addEventListener("change", show);
  show();
  const step = (by: number) => () => steps.choose(steps.index + by);
  const bar = el("div", { class: "bar" }, pick, el("button", { click: step(-1), "aria-label": "step back" }, "\u25c0"), el("button", { click: step(1), "aria-label": "step forward" }, "\u25b6"), status);
  return {
    name: "replay",
    title: "Schedules",
    element: el("div", { class: "column" }, bar, el("div", { class: "halves" }, steps.element, code)),
    shown: () => steps.element.focus(),
    key(event) {
      if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return false;
      steps.choose(steps.index + (event.key === "ArrowRight" ? 1 : -1));
      return true;
    },
  };
}
