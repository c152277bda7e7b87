import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vite';

const root = import.meta.dirname;

function sha256(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest();
}

/**
 * Makes one file of the page: the script and the style go into it, and the
 * content security policy names these two by their hashes and allows no
 * connection at all.
 */
function onePage(): Plugin {
  return {
    name: 'meshtrial-one-page',
    apply: 'build',
    enforce: 'post',
    generateBundle(_options, bundle) {
      let script = '';
      let style = '';
      for (const [name, item] of Object.entries(bundle)) {
        if (item.type === 'chunk') script += item.code;
        else if (name.endsWith('.css')) style += text(item.source);
        else if (!name.endsWith('.html')) this.error(`${name} would be a second file`);
        if (!name.endsWith('.html')) Reflect.deleteProperty(bundle, name);
      }
      const page = bundle['index.html'];
      if (page?.type !== 'asset' || script === '' || style === '') return this.error('the bundle has no page, script or style');
      style = style.trim();
      script = script.trim().replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
      const policy = [
        "default-src 'none'",
        `script-src 'sha256-${sha256(script).toString('base64')}'`,
        `style-src 'sha256-${sha256(style).toString('base64')}'`,
        'img-src data:',
        "base-uri 'none'",
        "form-action 'none'",
      ].join('; ');
      const html = text(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('<!-- meshtrial:policy -->', () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
        .replace('<!-- meshtrial:style -->', () => `<style>${style}</style>`)
        .replace('<!-- meshtrial:script -->', () => `<script type="module">${script}</script>`);
      if (html.includes('<!-- meshtrial:') || /<script[^>]*\ssrc=|<link\s/.test(html)) this.error('the page still refers to other files');
      page.source = html;
    },
  };
}

function text(source: string | Uint8Array): string {
  return typeof source === 'string' ? source : new TextDecoder().decode(source);
}

export default defineConfig({
  root,
  plugins: [onePage()],
  build: {
    outDir: resolve(root, '../dist'),
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 1 << 20,
    reportCompressedSize: true,
  },
});
