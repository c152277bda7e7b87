package dataplane

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/meshtrial/meshtrial/study"
)

// WasmModule is a user's Wasm module, with its name in the factor filters.
type WasmModule struct {
	Name string
	// File is its path; see [study.Study.WithFiles]. It is empty once the file has been read.
	File string
	// Code is the module; SHA256 its digest in hexadecimal.
	Code   []byte
	SHA256 string

	at study.Pos // of the file's name
}

// MaxWasm limits the bytes of a study's modules: they are in the resolved study, and in an object of
// Kubernetes, as text of which 4 bytes hold 3.
const MaxWasm = 640 << 10

// wasmMagic begins a module of the binary format, and is followed by its version, 1 (WebAssembly
// Core Specification, 5.5.16).
var wasmMagic = []byte("\x00asm\x01\x00\x00\x00")

// WasmOf returns the study's module of a name.
func WasmOf(s *study.Study, name string) (WasmModule, bool) {
	i := slices.IndexFunc(Of(s).Wasm, func(m WasmModule) bool { return m.Name == name })
	if i < 0 {
		return WasmModule{}, false
	}
	return Of(s).Wasm[i], true
}

func (m *WasmModule) take(code []byte) *study.Error {
	const hint = "compile a proxy-wasm plugin to a .wasm file"
	switch {
	case len(code) > MaxWasm:
		return study.Complain(study.CodeLimit, "make it smaller, for example with wasm-opt -Oz --strip-debug", "a Wasm module of more than %d KiB is too large", MaxWasm>>10)
	case len(code) == 0:
		return study.Complain(study.CodeInvalid, hint, "the Wasm module is empty")
	case !bytes.HasPrefix(code, wasmMagic):
		return study.Complain(study.CodeInvalid, hint, "this is not a Wasm module: it begins with %q instead of %q", code[:min(len(code), len(wasmMagic))], wasmMagic)
	}
	sum := sha256.Sum256(code)
	m.Code, m.SHA256, m.File = code, hex.EncodeToString(sum[:]), ""
	return nil
}

// readModules reads the modules' files. Errors have the position at which the study names the file.
func readModules(modules []WasmModule, read func(name string) ([]byte, error)) ([]WasmModule, error) {
	out, all := slices.Clone(modules), 0
	for i := range out {
		m := &out[i]
		if m.File != "" {
			code, err := read(m.File)
			if err != nil {
				return nil, m.at.Fault(study.CodeInvalid, "name a file relative to the study", "wasm.%s: %v", m.Name, err)
			}
			file := m.File
			if c := m.take(code); c != nil {
				return nil, m.at.Fault(c.Code, c.Hint, "wasm.%s: %s: %s", m.Name, file, c.Msg)
			}
		}
		if all += len(m.Code); all > MaxWasm {
			return nil, m.at.Fault(study.CodeLimit, "use several studies", "wasm.%s: the study's Wasm modules have more than %d KiB", m.Name, MaxWasm>>10)
		}
	}
	return out, nil
}

// wasmValue maps names to files or, in a study's resolved form, to their contents.
type wasmValue struct{ to *[]WasmModule }

func (v wasmValue) Decode(d *study.Decoder, n *study.Node) {
	decodeFiles(d, n, "wasm", "a Wasm module", "as {mine: mine.wasm}", func(name string, value *study.Node) {
		m := WasmModule{Name: name, at: value.Pos}
		if value.Kind == study.Scalar {
			study.Prose(&m.File).Decode(d, value)
		} else if m.fields().Decode(d, value); m.Code != nil {
			stated := m.SHA256
			if c := m.take(m.Code); c != nil {
				d.Complain(value.Pos, c)
			} else if stated != m.SHA256 {
				d.Fail(value.Pos, study.CodeConflict, byFile, "%s is not the Wasm module with the digest beside it", name)
			}
		}
		*v.to = append(*v.to, m)
	})
}

func (m *WasmModule) fields() study.Object {
	return study.Object{Name: m.Name, Fields: []study.Field{
		{Name: "sha256", Required: true, Doc: "The digest of a module that was read.", Value: study.Prose(&m.SHA256)},
		{Name: "inline", Required: true, Doc: "A module that was read, in base64.", Value: codeValue{m}},
	}}
}

func (v wasmValue) Encode() *study.Node {
	return encodeFiles(*v.to, func(m *WasmModule) (name, file string, read study.Object) { return m.Name, m.File, m.fields() })
}

func (v wasmValue) Schema() *jsonschema.Schema { return filesSchema((&WasmModule{}).fields()) }

// byFile is a hint for modules that were not written by meshtrial.
const byFile = "name a file instead, for example mine: mine.wasm"

type codeValue struct{ to *WasmModule }

func (v codeValue) Decode(d *study.Decoder, n *study.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	code, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		d.Fail(n.Pos, study.CodeConflict, byFile, "this is not base64")
		return
	}
	v.to.Code = code
}

func (v codeValue) Encode() *study.Node {
	return study.TextNode(base64.StdEncoding.EncodeToString(v.to.Code))
}

func (codeValue) Schema() *jsonschema.Schema { return &jsonschema.Schema{Type: "string"} }
