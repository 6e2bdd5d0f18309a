// Builds the page's script and style from src/, copies the layout engine, and writes what they were built from.
// `npm ci && npm run build`, or `make web` at the root.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../src/heddle/driver/page/bundle");
mkdirSync(out, { recursive: true });
await build({
  entryPoints: [join(here, "src/main.ts"), join(here, "src/page.css")],
  entryNames: "[name]",
  outdir: out,
  bundle: true,
  minify: true,
  charset: "ascii",
  target: "es2022",
  format: "iife",
  legalComments: "inline",
  logLevel: "warning",
});
const sha256 = (data) => createHash("sha256").update(data).digest("hex");
// What stands in HTML's script element may not close it.
const script = readFileSync(join(out, "main.js"), "utf8").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
writeFileSync(join(out, "main.js"), script);
copyFileSync(join(here, "node_modules/elkjs/lib/elk-worker.min.js"), join(out, "layout.js"));
copyFileSync(join(here, "node_modules/elkjs/LICENSE.md"), join(out, "LICENSE-elkjs.md"));
copyFileSync(join(here, "node_modules/uplot/LICENSE"), join(out, "LICENSE-uplot.txt"));

const sources = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
sources.push(...readdirSync(join(here, "src")).map((name) => `src/${name}`));
const rows = (folder, names) => Object.fromEntries([...names].sort().map((n) => [n, sha256(readFileSync(join(folder, n)))]));
const built = readdirSync(out).filter((name) => name !== "digests.json");
const digests = { sources: rows(here, sources), built: rows(out, built) };
writeFileSync(join(out, "digests.json"), JSON.stringify(digests, null, 2) + "\n");
