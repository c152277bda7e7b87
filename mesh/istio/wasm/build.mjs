// Compiles header.ts and noop.ts to header.wasm and noop.wasm, and notes what
// they were made from in sources.sha256, which a test compares.

import asc from "assemblyscript/asc";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

// Also in wasm_test.go.
const sources = ["header.ts", "host.ts", "noop.ts", "package.json"];

for (const name of ["header", "noop"]) {
  const { error, stderr } = await asc.main([
    `${name}.ts`, "--outFile", `${name}.wasm`, "-O3", "--noAssert", "--runtime", "stub", "--exportStart", "_initialize",
  ]);
  if (error) {
    console.error(stderr.toString());
    throw error;
  }
}
const hash = createHash("sha256");
for (const name of sources) {
  hash.update(name + "\0").update(readFileSync(name));
}
writeFileSync("sources.sha256", hash.digest("hex") + "\n");
