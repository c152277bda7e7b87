// The types in src/documents.ts are those of documents.schema.json, which a Go
// test keeps true to the program's own types; `make documents` writes both, and
// the documents that the other tests read.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020';
import { compile } from 'json-schema-to-typescript';
import ts from 'typescript';
import { expect, test } from 'vitest';

const web = join(import.meta.dirname, '..');
const schema = JSON.parse(readFileSync(join(web, 'documents.schema.json'), 'utf8')) as Parameters<typeof compile>[0];

const banner = '// Generated from the types of the Go program by `make documents`: do not edit.';

/** Nothing on the page may change a document: every member is read-only. */
function readOnly(text: string): string {
  const file = ts.createSourceFile('documents.ts', text, ts.ScriptTarget.ES2022, true);
  const { factory } = ts;
  const word = factory.createModifier(ts.SyntaxKind.ReadonlyKeyword);
  const { transformed: [out] } = ts.transform(file, [(context) => (root) => {
    const visit = (node: ts.Node): ts.Node => {
      const inner = ts.visitEachChild(node, visit, context);
      if (ts.isPropertySignature(inner)) return factory.updatePropertySignature(inner, [word], inner.name, inner.questionToken, inner.type);
      if (ts.isIndexSignatureDeclaration(inner)) return factory.updateIndexSignature(inner, [word], inner.parameters, inner.type);
      if (ts.isArrayTypeNode(inner) || ts.isTupleTypeNode(inner)) return factory.createTypeOperatorNode(ts.SyntaxKind.ReadonlyKeyword, inner);
      return inner;
    };
    return ts.visitEachChild(root, visit, context);
  }]);
  if (!out) throw new Error('nothing was made');
  return ts.createPrinter().printFile(out);
}

test('the types of documents are those of the program', async () => {
  const made = await compile(schema, 'PageDocument', { bannerComment: banner, format: false, additionalProperties: false });
  await expect(readOnly(made)).toMatchFileSnapshot(join(web, 'src/documents.ts'));
});

const fixtures = join(import.meta.dirname, 'fixtures');

const check = new Ajv2020({ strict: false }).compile(schema as Record<string, unknown>);

test.each(readdirSync(fixtures))('%s is what the types say', (name) => {
  check(JSON.parse(readFileSync(join(fixtures, name), 'utf8')));
  expect(check.errors).toBeNull();
});
