// Differences of two lists of lines: Myers, "An O(ND) Difference Algorithm and Its Variations" (1986).

export interface Row { sign: " " | "+" | "-"; line: number }

const MOST_EDITS = 1500;

/** The rows of both lists in order. Lists that differ in more than some thousand lines are shown one after the other. */
export function diff(a: number[], b: number[]): Row[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const rows = (lines: number[], sign: Row["sign"]): Row[] => lines.map((line) => ({ sign, line }));
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...rows(a.slice(0, start), " "), ...middle, ...rows(a.slice(a.length - end), " ")];
}

function edits(a: number[], b: number[]): Row[] {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const replaced = (): Row[] => [
    ...a.map((line): Row => ({ sign: "-", line })), ...b.map((line): Row => ({ sign: "+", line })),
  ];
  if (!a.length || !b.length) return replaced();
  let reach = new Int32Array(2 * most + 3);
  const history: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    history.push(reach.slice());
    for (let k = -d; k <= d; k += 2) {
      const at = k + most + 1;
      let x = k === -d || (k !== d && reach[at - 1]! < reach[at + 1]!) ? reach[at + 1]! : reach[at - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[at] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, history, d, most);
    }
  }
  return replaced();
}

function walkBack(a: number[], b: number[], history: Int32Array[], d: number, most: number): Row[] {
  const rows: Row[] = [];
  let x = a.length;
  let y = b.length;
  for (; d > 0; d--) {
    const reach = history[d]!;
    const k = x - y;
    const at = k + most + 1;
    const down = k === -d || (k !== d && reach[at - 1]! < reach[at + 1]!);
    const beforeX = reach[(down ? k + 1 : k - 1) + most + 1]!;
    const startX = down ? beforeX : beforeX + 1;
    for (; x > startX; y--) rows.push({ sign: " ", line: a[--x]! });
    if (down) rows.push({ sign: "+", line: b[--y]! });
    else rows.push({ sign: "-", line: a[--x]! });
  }
  while (x > 0) rows.push({ sign: " ", line: a[--x]! });
  return rows.reverse();
}
