import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

// Text from studies and machines is untrusted: it may reach the page as text
// only, so what takes markup is forbidden here.
const markup = ['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'write', 'writeln', 'setHTMLUnsafe', 'srcdoc'];

export default defineConfig(
  { ignores: ['node_modules/**'] },
  js.configs.recommended,
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: { allowDefaultProject: ['eslint.config.js'] }, tsconfigRootDir: import.meta.dirname } },
    rules: {
      'no-restricted-properties': ['error', ...markup.map((property) => ({ property, message: 'Use text nodes: names come from strangers.' }))],
      'no-restricted-globals': ['error', 'eval', 'fetch', 'XMLHttpRequest'],
      'no-implied-eval': 'error',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-non-null-assertion': 'error',
    },
  },
  // A page that is served asks its own server, and its policy nobody else.
  { files: ['src/live.ts'], rules: { 'no-restricted-globals': ['error', 'eval', 'XMLHttpRequest'] } },
);
