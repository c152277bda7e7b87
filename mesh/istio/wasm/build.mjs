// Compiles header.ts and noop.ts to header.wasm and noop.wasm, here or in the
// folder that the first argument names.

import asc from "assemblyscript/asc";

const folder = process.argv[2] ?? ".";

for (const name of ["header", "noop"]) {
  const { error, stderr } = await asc.main([
    `${name}.ts`, "--outFile", `${folder}/${name}.wasm`, "-O3", "--noAssert", "--runtime", "stub", "--exportStart", "_initialize",
  ]);
  if (error) {
    console.error(stderr.toString());
    throw error;
  }
}
