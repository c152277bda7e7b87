package istio

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wasmSources are those of wasm/build.mjs.
var wasmSources = []string{"header.ts", "host.ts", "noop.ts", "package.json"}

// TestWasmIsOfItsSources: the modules in the repository were built from the
// sources beside them.
func TestWasmIsOfItsSources(t *testing.T) {
	h := sha256.New()
	for _, name := range wasmSources {
		data, err := os.ReadFile(filepath.Join("wasm", name))
		if err != nil {
			t.Fatal(err)
		}
		h.Write([]byte(name + "\x00"))
		h.Write(data)
	}
	noted, err := os.ReadFile("wasm/sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != strings.TrimSpace(string(noted)) {
		t.Errorf("the modules are older than their sources; build them again: make wasm")
	}
	lock, err := os.ReadFile("wasm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("wasm/package-lock.json names a registry; wasm/.npmrc keeps it out: npm install in that folder")
	}
	if !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("wasm/package-lock.json pins no content")
	}
}

// TestWasmModules: what a host of proxy-wasm's ABI 0.2.1 asks for is there, and
// the modules ask for no more than it has.
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

// wasmNames lists what a module imports and exports.
// See WebAssembly Core Specification, binary format, sections 2 and 7.
func wasmNames(t *testing.T, module []byte) (imports, exports []string) {
	t.Helper()
	if !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		t.Fatal("no WebAssembly")
	}
	r := bytes.NewReader(module[8:])
	number := func(r *bytes.Reader) int {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	text := func(r *bytes.Reader) string {
		b := make([]byte, number(r))
		if _, err := r.Read(b); err != nil {
			t.Fatal(err)
		}
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
