package istio

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/nodetest"
)

// TestWasmIsWhatItsSourcesMake recompiles the modules and compares.
func TestWasmIsWhatItsSourcesMake(t *testing.T) {
	nodetest.Program(t, "wasm", filepath.Join("assemblyscript", "dist", "asc.js"))
	nodetest.DependsOn(t, "wasm/header.ts", "wasm/host.ts", "wasm/noop.ts", "wasm/build.mjs", "wasm/package-lock.json")
	out := t.TempDir()
	nodetest.Run(t, "wasm", "build.mjs", out)
	for name, committed := range map[string][]byte{"header.wasm": wasmHeader, "noop.wasm": wasmNoop} {
		again, err := os.ReadFile(filepath.Join(out, name))
		must.OK(t, err)
		if !bytes.Equal(again, committed) {
			t.Errorf("%s is not what its sources make; build it again: make wasm", name)
		}
	}
}

func TestWasmLockNamesNoHost(t *testing.T) {
	lock, err := os.ReadFile("wasm/package-lock.json")
	must.OK(t, err)
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("wasm/package-lock.json names a registry; wasm/.npmrc keeps it out: npm install in that folder")
	}
	if !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("wasm/package-lock.json pins no content")
	}
}

// TestWasmModules verifies that the modules export what a host of proxy-wasm's
// ABI 0.2.1 requires, and import only what it provides.
func TestWasmModules(t *testing.T) {
	for name, m := range map[string]struct {
		module  []byte
		imports []string
	}{
		"header": {wasmHeader, []string{"env.proxy_get_header_map_value", "env.proxy_replace_header_map_value"}},
		"noop":   {wasmNoop, nil},
	} {
		imports, exports := wasmNames(t, m.module)
		slices.Sort(imports)
		if !slices.Equal(imports, m.imports) {
			t.Errorf("%s imports %v, expected %v", name, imports, m.imports)
		}
		for _, want := range []string{"memory", "_initialize", "proxy_abi_version_0_2_1", "proxy_on_memory_allocate", "proxy_on_context_create", "proxy_on_request_headers"} {
			if !slices.Contains(exports, want) {
				t.Errorf("%s does not export %s", name, want)
			}
		}
	}
}

// wasmNames lists the imports and exports of a module. See WebAssembly Core
// Specification, binary format, sections 2 and 7.
func wasmNames(t *testing.T, module []byte) (imports, exports []string) {
	t.Helper()
	if !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Fatal("no WebAssembly")
	}
	r := bytes.NewReader(module[8:])
	number := func(r *bytes.Reader) int {
		n, err := binary.ReadUvarint(r)
		must.OK(t, err)
		return int(n)
	}
	text := func(r *bytes.Reader) string {
		b := make([]byte, number(r))
		must.OK(t, must.Err(r.Read(b)))
		return string(b)
	}
	for r.Len() > 0 {
		id, _ := r.ReadByte()
		body := make([]byte, number(r))
		if n, _ := r.Read(body); n != len(body) {
			t.Fatal("a section is cut off")
		}
		s := bytes.NewReader(body)
		switch id {
		case 2:
			for range number(s) {
				imports = append(imports, text(s)+"."+text(s))
				if kind, _ := s.ReadByte(); kind != 0 {
					t.Fatalf("%s is no function", imports[len(imports)-1])
				}
				number(s) // its type
			}
		case 7:
			for range number(s) {
				exports = append(exports, text(s))
				_, _ = s.ReadByte() // its kind
				number(s)
			}
		}
	}
	return imports, exports
}
