package dataplane

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestFiltersLevel(t *testing.T) {
	for _, tt := range []struct {
		level, want string // want "" if it is rejected
		says        string // part of the error and its hint
	}{
		{"none", "none", ""},
		{"lua", "lua", ""},
		{" lua + wasm-noop ", "lua+wasm-noop", ""},
		{"authz-deny-2000+authz-allow-1", "authz-allow-1+authz-deny-2000", ""},
		{"planted-noop+planted-200", "planted-200+planted-noop", ""},
		{"envoyfilter-b-2+envoyfilter-a", "envoyfilter-a+envoyfilter-b-2", ""},
		{"", "", "no part is named"},
		{"lau", "", "did you mean lua"},
		{"lua+", "", "part 2: a part is empty"},
		{"lua+none", "", "part 2: none cannot be combined with other parts"},
		{"lua+lua", "", "part 2: lua is listed twice"},
		{"authz-allow-10+authz-allow-100", "", "authz-allow-10 and authz-allow-100 contradict each other"},
		{"jwt+jwt-token", "", "jwt and jwt-token contradict each other"},
		{"authz-allow", "", "lacks its number of rules"},
		{"authz-allow-0", "", "from 1 to 2000"},
		{"authz-allow-010", "", "is not a number"},
		{"planted--5", "", "is out of range"},
		{"lua-5", "", "leave the number out"},
		{"envoyfilter", "", "names no file of envoy_filters"},
		{"rate-limit-global+ext-authz-grpc", "ext-authz-grpc+rate-limit-global", ""},
		{"ext-authz-grpc-5", "", "leave the number out"},
		{"wasm-file-a+wasm+wasm-file-b-2", "wasm+wasm-file-a+wasm-file-b-2", ""},
		{"wasm-file", "", "wasm-file-mine, with wasm: {mine: FILE}"},
		{strings.Repeat("lua+", maxParts) + "lua", "", "too many"},
	} {
		f, _ := study.FactorByName(FactorFilters)
		got, c := f.Parse(tt.level)
		switch {
		case c != nil && (tt.want != "" || !strings.Contains(c.Msg+" "+c.Hint, tt.says)):
			t.Errorf("%q: %s (%s), expected %q%s", tt.level, c.Msg, c.Hint, tt.want, tt.says)
		case c == nil && got != tt.want:
			t.Errorf("%q is %q, expected %q%s", tt.level, got, tt.want, tt.says)
		}
	}
}

// partGen draws a part of any kind.
func partGen(t *rapid.T) Part {
	k := rapid.SampledFrom(partKinds).Draw(t, "kind")
	p := Part{Kind: k.Name}
	if k.Number != "" {
		p.N = rapid.IntRange(k.Low, k.High).Draw(t, "number")
	}
	if k.File != "" {
		p.File = rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?`).Draw(t, "file")
	}
	return p
}

// TestFiltersLevelProperties: parts in any order yield one level, which is canonical, matches the
// pattern for editors, and has them all.
func TestFiltersLevelProperties(t *testing.T) {
	pattern := regexp.MustCompile(filtersPattern())
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfNDistinct(rapid.Custom(partGen), 1, 8, func(p Part) string { return p.Kind + p.File }).Draw(t, "parts")
		words := make([]string, len(parts))
		for i, p := range parts {
			words[i] = p.String()
		}
		both := slices.ContainsFunc(parts, func(p Part) bool { return p.Kind == PartJWT }) &&
			slices.ContainsFunc(parts, func(p Part) bool { return p.Kind == PartJWTToken })
		level, c := filtersLevel(strings.Join(words, "+"))
		if both {
			if c == nil {
				t.Fatalf("%v is taken", words)
			}
			return
		}
		if c != nil {
			t.Fatalf("%v: %s", words, c.Msg)
		}
		if !pattern.MatchString(level) {
			t.Fatalf("%q does not fit the pattern", level)
		}
		slices.Reverse(words)
		if again, c := filtersLevel(strings.Join(words, "+")); c != nil || again != level {
			t.Fatalf("the other way round %q is %q", level, again)
		}
		if again, c := filtersLevel(level); c != nil || again != level {
			t.Fatalf("%q is not canonical: %q", level, again)
		}
		got, err := Parts(level)
		if err != nil || len(got) != len(parts) {
			t.Fatalf("%q has %v (%v), expected %v", level, got, err, parts)
		}
		for _, p := range parts {
			if !slices.Contains(got, p) || !HasPart(level, p.Kind) {
				t.Fatalf("%q lacks %v", level, p)
			}
		}
	})
}

func FuzzFiltersLevel(f *testing.F) {
	for _, s := range []string{"none", "lua+wasm", "authz-allow-100", "envoyfilter-a-b+jwt", "planted-200 + planted-noop", "+", "none+lua", "dns-proxy-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		level, c := filtersLevel(s)
		if c != nil {
			if c.Msg == "" {
				t.Error("refused without a word")
			}
			return
		}
		if again, c := filtersLevel(level); c != nil || again != level {
			t.Errorf("%q is not canonical: %q", level, again)
		}
	})
}

const oneEnvoyFilter = `apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: theirs, namespace: elsewhere}
spec:
  priority: -10
  workloadSelector: {labels: {app: theirs}}
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_INBOUND}
    patch:
      operation: INSERT_BEFORE
      value: {name: mine, typed_config: {on: true, n: 3, half: 0.5, text: "3", block: 'true', empty: null}}
`

func TestEnvoyFilterFile(t *testing.T) {
	f := EnvoyFilter{Name: "a", File: "a.yaml"}
	must.OK(t, f.parse([]byte(oneEnvoyFilter)))
	want := []any{map[string]any{
		"applyTo": "HTTP_FILTER", "match": map[string]any{"context": "SIDECAR_INBOUND"},
		"patch": map[string]any{"operation": "INSERT_BEFORE", "value": map[string]any{"name": "mine", "typed_config": map[string]any{
			"on": true, "n": int64(3), "half": 0.5, "text": "3", "block": "true", "empty": nil}}},
	}}
	if !reflect.DeepEqual(f.Patches, want) || f.Priority != -10 {
		t.Errorf("got %#v, priority %d", f.Patches, f.Priority)
	}
}

func TestEnvoyFilterFileRefused(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"nothing", "", "it is empty"},
		{"no kind", "spec: {}", "the kind is nothing"},
		{"another kind", "kind: Pod\nspec: {}", `the kind is "Pod"`},
		{"no spec", "kind: EnvoyFilter", "has no spec"},
		{"no patches", "kind: EnvoyFilter\nspec: {configPatches: []}", "patches nothing"},
		{"a patch without patch", "kind: EnvoyFilter\nspec:\n  configPatches:\n  - {applyTo: CLUSTER}", "a.yaml:4:5"},
		{"unknown field", "kind: EnvoyFilter\nspec: {filters: []}", `no field "filters"`},
		{"priority", "kind: EnvoyFilter\nspec: {priority: high}", "priority is"},
		{"two documents", oneEnvoyFilter + "---\n" + oneEnvoyFilter, "a.yaml"},
		{"an alias", "kind: EnvoyFilter\na: &a [1]\nspec: {b: *a}", "a.yaml:2"},
		{"too large", strings.Repeat("# comment\n", 60_000), "a.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := EnvoyFilter{Name: "a", File: "a.yaml"}
			err := f.parse([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, expected %q", err, tt.says)
			}
		})
	}
}

func TestEnvoyFiltersOfAStudy(t *testing.T) {
	const head = "name: a\nquestion: b\nfactors: {filters: [none, envoyfilter-mine]}\n"
	s := studytest.Parse(t, head+"envoy_filters: {mine: mine.yaml}\n")
	full, err := s.WithFiles(func(string) ([]byte, error) { return []byte(oneEnvoyFilter), nil })
	must.OK(t, err)
	if Of(s).EnvoyFilters[0].File == "" {
		t.Error("the study itself was changed")
	}
	again := studytest.Parse(t, string(full.Marshal()))
	if !reflect.DeepEqual(Of(again).EnvoyFilters, Of(full).EnvoyFilters) || len(Of(again).EnvoyFilters) != 1 {
		t.Errorf("read again it is %#v, expected %#v", Of(again).EnvoyFilters, Of(full).EnvoyFilters)
	}
	if _, err := s.WithFiles(func(string) ([]byte, error) { return nil, errors.New("gone") }); err == nil || !strings.Contains(err.Error(), "envoy_filters.mine") {
		t.Errorf("a file that is gone: %v", err)
	}
	for text, says := range map[string]string{
		head: "part envoyfilter-mine needs a file that the study does not name",
		"name: a\nquestion: b\nenvoy_filters: {mine: mine.yaml}\n":              "no level of filters uses mine of envoy_filters",
		head + "envoy_filters: {mine: {inline: nonsense}}\n":                    "not how meshtrial writes",
		head + "envoy_filters: {Mine: mine.yaml}\n":                             `invalid name of an EnvoyFilter "Mine"`,
		head + "envoy_filters: [mine.yaml]\n":                                   "must map names to files",
		head + "envoy_filters: {mine: [mine.yaml]}\n":                           "is not a file",
		"name: a\nquestion: b\nsettings: {filters: lua, protocol: tcp}\n":       "cannot see with protocol tcp",
		"name: a\nquestion: b\nsettings: {filters: lua}\nload: {tls: true}\n":   "speaks TLS itself",
		"name: a\nquestion: b\nsettings: {filters: lau}\n":                      "a.yaml:3:21",
		"name: a\nquestion: b\nfactors: {filters: [jwt+lua, lua+jwt]}\n":        "given twice",
		"name: a\nquestion: b\ncontrol: {}\nenvoy_filters: {mine: mine.yaml}\n": "is for studies of the data plane",
	} {
		if _, err := study.Parse([]byte(text), "a.yaml", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", text, err, says)
		}
	}
}

// FuzzEnvoyFilter: any file either yields patches that round-trip through the resolved form, or an
// error with the file's name.
func FuzzEnvoyFilter(f *testing.F) {
	f.Add([]byte(oneEnvoyFilter))
	f.Add([]byte("kind: EnvoyFilter\nspec: {configPatches: [{applyTo: A, patch: {value: 1e9}}]}"))
	f.Add([]byte("kind: EnvoyFilter\nspec: {configPatches: [{applyTo: 0x10, patch: .inf}]}"))
	f.Add([]byte("kind: EnvoyFilter\nspec: {priority: 99999999999, configPatches: [1]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		one := EnvoyFilter{Name: "a", File: "a.yaml"}
		if err := one.parse(data); err != nil {
			if !strings.Contains(err.Error(), "a.yaml") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		if len(one.Patches) == 0 {
			t.Fatal("no patches and no error")
		}
		var again EnvoyFilter
		d := &study.Decoder{}
		inlineValue{&again}.Decode(d, inlineValue{&one}.Encode())
		if len(d.Errs) > 0 {
			t.Fatal(d.Errs)
		}
		if !reflect.DeepEqual(inlineValue{&again}.Encode(), inlineValue{&one}.Encode()) {
			t.Errorf("read again it is %#v, expected %#v", again, one)
		}
	})
}

const wasmStudy = "name: a\nquestion: b\nfactors: {filters: [none, wasm-file-mine]}\nwasm: {mine: mine.wasm}\n"

// module returns a file that begins as a module does.
func module(bytes int) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, bytes-8)...)
}

func TestWasmOfAStudy(t *testing.T) {
	s := studytest.Parse(t, wasmStudy)
	full, err := s.WithFiles(func(string) ([]byte, error) { return module(MaxWasm), nil })
	must.OK(t, err)
	if Of(s).Wasm[0].File == "" {
		t.Error("the study itself was changed")
	}
	again := studytest.Parse(t, string(full.Marshal()))
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
	if _, err := studytest.Parse(t, two).WithFiles(func(string) ([]byte, error) { return module(MaxWasm/2 + 1), nil }); err == nil || !strings.Contains(err.Error(), "wasm.b: the study's Wasm modules") {
		t.Errorf("two modules that are too large together: %v", err)
	}
}

// A study whose files are too large together could not be read again.
func TestFilesTooLargeTogether(t *testing.T) {
	s := studytest.Parse(t, "name: a\nquestion: b\nfactors: {filters: [none, envoyfilter-big+wasm-file-mine]}\nenvoy_filters: {big: big.yaml}\nwasm: {mine: mine.wasm}\n")
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
