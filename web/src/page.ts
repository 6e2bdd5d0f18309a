// What all views share: the facts, and which places are selected. Whatever has one of those places is highlighted.

import type { Facts, Listing } from "./facts";

export interface View {
  name: string;
  title: string;
  element: HTMLElement;
  /** The view is seen, for the first time or again. */
  shown?(): void;
  /** Other places are selected. */
  selected?(): void;
  /** Whether a key meant something. */
  key?(event: KeyboardEvent): boolean;
}

export class Page {
  places = new Set<number>();
  /** The kernel that is meant, where the selection tells. */
  kernel = "";
  private readonly listeners: (() => void)[] = [];

  constructor(readonly facts: Facts) {}

  onSelect(listener: () => void): void {
    this.listeners.push(listener);
  }

  select(set: number, kernel = ""): void {
    this.places = new Set(this.facts.sets[set] ?? []);
    this.kernel = kernel;
    for (const listener of this.listeners) listener();
  }

  /** How many of the selected places a set has. */
  shared(set: number): number {
    if (!this.places.size) return 0;
    let count = 0;
    for (const place of this.facts.sets[set] ?? []) if (this.places.has(place)) count++;
    return count;
  }

  text(number: number | null): number[] {
    return number === null ? [] : (this.facts.texts[number] ?? []);
  }

  line(number: number): string {
    return this.facts.lines[number] ?? "";
  }

  /** The set of places of a kernel, -1 where it is not known. */
  setOfKernel(kernel: string): number {
    for (const level of this.facts.levels)
      for (const listing of level.functions) if (listing.kernel === kernel) return listing.set;
    return -1;
  }

  /** The function of a level that shows the selection best. */
  best(functions: Listing[]): Listing | undefined {
    const score = (listing: Listing): number => {
      const marked = listing.marks.some((mark) => this.shared(mark.set));
      const shared = this.shared(listing.set);
      const kernel = this.kernel !== "" && listing.kernel === this.kernel;
      const size = this.text(listing.text).length;
      const others = (this.facts.sets[listing.set]?.length ?? 0) - shared;
      return (kernel ? 1e9 : 0) + (shared ? 1e6 : 0) + (marked ? 5e5 : 0) - others * 100 + Math.min(size, 9e4) / 1e5;
    };
    const found = functions.filter((listing) => this.shared(listing.set) || (this.kernel && listing.kernel === this.kernel));
    return found.sort((a, b) => score(b) - score(a))[0];
  }
}
