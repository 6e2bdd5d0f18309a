// What a page shows: the classes of src/heddle/driver/page/facts.py, which says what they mean.

export interface Mark { first: number; last: number; set: number }
export interface Listing { name: string; text: number; marks: Mark[]; set: number; kernel: string }
export interface Level { name: string; functions: Listing[] }
export interface GraphNode {
  kind: string; label: string; name: string; type: string; set: number; weight_bytes: number; parent: number; group: number;
}
export interface Group { kernel: string; set: number }
export interface Graph { function: string; nodes: GraphNode[]; edges: [number, number][]; groups: Group[] }
export interface Change { function: string; before: number | null; after: number | null }
export interface PassRun { name: string; seconds: number; changes: Change[] }
export interface Placed {
  name: string; type: string; first: number; last: number; offset_bytes: number | null; size_bytes: number | null; set: number;
}
export interface PlannedStorage {
  name: string; size: string; size_bytes: number | null; first: number; last: number; tensors: Placed[];
}
export interface MemoryPlan { function: string; num_bindings: number; peak: string; storages: PlannedStorage[] }
export interface Span {
  name: string; thread: number; start_us: number; duration_us: number; depth: number; is_function: boolean; set: number;
}
export interface RunFacts {
  function: string; dims: Record<string, number>; duration_us: number; dispatch_us: number; peak_bytes: number;
  num_dropped: number; num_dropped_parts: number; threads: string[]; spans: Span[]; memory: [number, number][];
}
export interface KernelPoint {
  name: string; shapes: number[][]; count: number; time_us: number; flops: number | null; size_bytes: number | null;
  least_us: number; is_memory_bound: boolean; rule: string; operators: string[]; advice: string; gain_us: number;
}
export interface Roofline { gflops: number; bandwidths: [number, number][]; kernels: KernelPoint[]; advice: string[] }
export interface ReplayStep { instruction: string; text: number }
export interface Replay { kernel: string; rule: string; start: number; steps: ReplayStep[] }
export interface Facts {
  model: string; target: string; precision: string; version: number; lines: string[]; texts: number[][]; places: string[];
  sets: number[][]; levels: Level[]; graphs: Graph[]; passes: PassRun[]; plans: MemoryPlan[]; run: RunFacts | null;
  roofline: Roofline | null; replays: Replay[]; notes: string[];
}

/** The version of the facts that this script knows. */
export const VERSION = 1;
