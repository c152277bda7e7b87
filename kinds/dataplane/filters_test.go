package dataplane

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
)

func TestFiltersLevel(t *testing.T) {
	for _, tt := range []struct {
		level, want string // want "" if it is rejected
		says        string // part of the error and its hint
	}{
		{"none", "none", ""},
		{"lua", "lua", ""},
		{"jwt+lua", "lua+jwt", ""},
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
		{"authz-allow-2001", "", "from 1 to 2000"},
		{"authz-allow-010", "", "is not a number"},
		{"planted--5", "", "is out of range"},
		{"planted-99999999999999999999", "", "is not a number"},
		{"lua-5", "", "leave the number out"},
		{"envoyfilter", "", "names no file of envoy_filters"},
		{"envoyfilter-A", "", "names no file of envoy_filters"},
		{"rate-limit-global+ext-authz-grpc", "ext-authz-grpc+rate-limit-global", ""},
		{"ext-authz-grpc-5", "", "leave the number out"},
		{"wasm-file-a+wasm+wasm-file-b-2", "wasm+wasm-file-a+wasm-file-b-2", ""},
		{"wasm-file", "", "wasm-file-mine, with wasm: {mine: FILE}"},
		{"wasm-null", "", "compiled into Envoy"},
		{"rsa", "", "not available"},
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

func TestPartsOfNothing(t *testing.T) {
	for _, level := range []string{"", FiltersNone, study.NotApplicable} {
		if got, err := Parts(level); err != nil || len(got) > 0 {
			t.Errorf("%q has %v (%v)", level, got, err)
		}
	}
	if _, err := Parts("nonsense"); err == nil {
		t.Error("nonsense is read")
	}
}

func TestFiltersVariant(t *testing.T) {
	cell := record.Cell{study.FactorSidecars: study.SidecarsBoth, FactorFilters: "lua+authz-allow-100"}
	if got := ServerVariant(cell).Name(); got != "sidecar-lua-authz-allow-100" {
		t.Errorf("the server is %s", got)
	}
	if got := ClientVariant(cell).Level(FactorFilters); got != "" {
		t.Errorf("the client has filters %s", got)
	}
}
