package dataplane

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

const wasmStudy = "name: a\nquestion: b\nfactors: {filters: [none, wasm-file-mine]}\nwasm: {mine: mine.wasm}\n"

// module returns a file that begins as a module does.
func module(bytes int) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, bytes-8)...)
}

func TestWasmOfAStudy(t *testing.T) {
	s, err := study.Parse([]byte(wasmStudy), "a.yaml", nil)
	must.OK(t, err)
	full, err := s.WithFiles(func(string) ([]byte, error) { return module(MaxWasm), nil })
	must.OK(t, err)
	if Of(s).Wasm[0].File == "" {
		t.Error("the study itself was changed")
	}
	again, err := study.Parse(full.Marshal(), "resolved.yaml", nil)
	must.OK(t, err)
	got, _ := WasmOf(again, "mine")
	want, ok := WasmOf(full, "mine")
	got.at, want.at = study.Pos{}, study.Pos{}
	if !ok || !reflect.DeepEqual(got, want) || len(got.Code) != MaxWasm || len(got.SHA256) != 64 {
		t.Errorf("read again it has %d bytes, %s, expected %d, %s", len(got.Code), got.SHA256, len(want.Code), want.SHA256)
	}
	for text, says := range map[string]string{
		wasmStudy[:strings.Index(wasmStudy, "wasm: ")]:                                  "a.yaml:3:",
		"name: a\nquestion: b\nwasm: {mine: mine.wasm}\n":                               "no level of filters uses mine of wasm",
		strings.Replace(wasmStudy, "{mine: mine", "{Mine: mine", 1):                     `invalid name of a Wasm module "Mine"`,
		strings.Replace(wasmStudy, "{mine: mine.wasm}", "[mine.wasm]", 1):               "must map names to files",
		strings.Replace(wasmStudy, "mine.wasm", "[mine.wasm]", 1):                       "a.yaml:4:14",
		strings.Replace(wasmStudy, "mine.wasm", "{inline: AGFzbQE=}", 1):                "lacks the field",
		strings.Replace(wasmStudy, "mine.wasm", "{sha256: a, inline: AGFzbQEAAAA=}", 1): "with the digest beside it",
		strings.Replace(wasmStudy, "mine.wasm", "{sha256: a, inline: '?'}", 1):          "not base64",
	} {
		if _, err := study.Parse([]byte(text), "a.yaml", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", text, err, says)
		}
	}
}

// TestWasmFileRefused: every error has the line of the study that names the file.
func TestWasmFileRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		data []byte
		err  error
		code study.Code
		says string
	}{
		{"missing", nil, errors.New("no such file"), study.CodeInvalid, "no such file"},
		{"empty", nil, nil, study.CodeInvalid, "is empty"},
		{"text", []byte("(module)"), nil, study.CodeInvalid, "not a Wasm module"},
		{"cut off", []byte("\x00asm"), nil, study.CodeInvalid, "not a Wasm module"},
		{"another version", []byte("\x00asm\x0d\x00\x01\x00"), nil, study.CodeInvalid, "not a Wasm module"},
		{"too large", module(MaxWasm + 1), nil, study.CodeLimit, "more than 640 KiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := study.Parse([]byte(wasmStudy), "a.yaml", nil)
			must.OK(t, err)
			_, err = s.WithFiles(func(string) ([]byte, error) { return tt.data, tt.err })
			var found study.Errors
			if !errors.As(err, &found) || found[0].Code != tt.code || found[0].Pos.Line != 4 || found[0].Pos.File != "a.yaml" || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, expected %s at a.yaml:4: %s", err, tt.code, tt.says)
			}
		})
	}
	two := strings.Replace(strings.Replace(wasmStudy, "mine]", "mine, wasm-file-b]", 1), "mine.wasm", "mine.wasm, b: b.wasm", 1)
	s, err := study.Parse([]byte(two), "a.yaml", nil)
	must.OK(t, err)
	if _, err := s.WithFiles(func(string) ([]byte, error) { return module(MaxWasm/2 + 1), nil }); err == nil || !strings.Contains(err.Error(), "wasm.b: the study's Wasm modules") {
		t.Errorf("two modules that are too large together: %v", err)
	}
}

// A study whose files are too large together could not be read again.
func TestFilesTooLargeTogether(t *testing.T) {
	s, err := study.Parse([]byte("name: a\nquestion: b\nfactors: {filters: [none, envoyfilter-big+wasm-file-mine]}\nenvoy_filters: {big: big.yaml}\nwasm: {mine: mine.wasm}\n"), "a.yaml", nil)
	must.OK(t, err)
	for kib, fits := range map[int]bool{1: true, 400: false} {
		_, err := s.WithFiles(func(name string) ([]byte, error) {
			if name == "mine.wasm" {
				return module(MaxWasm), nil
			}
			return []byte("kind: EnvoyFilter\nspec:\n  configPatches:\n  - {applyTo: HTTP_FILTER, patch: {operation: INSERT_BEFORE, value: {name: " + strings.Repeat("a", kib<<10) + "}}}\n"), nil
		})
		if (err == nil) != fits || err != nil && (errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" || !strings.Contains(err.Error(), "1024 KiB")) {
			t.Errorf("%d KiB: %v", kib, err)
		}
	}
}

// FuzzWasm: any inline text either is a module that round-trips through the resolved form, or an
// error.
func FuzzWasm(f *testing.F) {
	f.Add("AGFzbQEAAAA=", "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476")
	f.Add("AGFzbQEAAAA=", "")
	f.Add("!", "x")
	f.Fuzz(func(t *testing.T, text, digest string) {
		s, err := study.Parse(fmt.Appendf(nil, "name: a\nquestion: b\nfactors: {filters: [none, wasm-file-mine]}\nwasm: {mine: {sha256: %q, inline: %q}}\n", digest, text), "a.yaml", nil)
		if err != nil {
			return
		}
		m, ok := WasmOf(s, "mine")
		if !ok || !bytes.HasPrefix(m.Code, wasmMagic) || m.SHA256 != digest {
			t.Errorf("%q with digest %q is read as %d bytes with %q", text, digest, len(m.Code), m.SHA256)
		}
	})
}
