package advice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/golden"
)

// The catalogue is complete: everything it names exists, and each rule has everything that
// advice shows.
func TestCatalogue(t *testing.T) {
	codes := map[string]bool{}
	for _, r := range rules {
		if codes[r.Code] {
			t.Errorf("%s is there twice", r.Code)
		}
		codes[r.Code] = true
		if r.Title == "" || r.Condition == "" || r.Risk == "" || r.Back == "" || len(r.Sources) == 0 ||
			len(r.Shows) == 0 || len(r.Try) == 0 ||
			r.When == nil || r.Share == nil || r.Effect.Between == nil {
			t.Errorf("%s lacks something: %+v", r.Code, r)
		}
		if strings.Count(r.Says.format, "%s") != len(r.Says.quantities) {
			t.Errorf("%s says %q with %d quantities", r.Code, r.Says.format, len(r.Says.quantities))
		}
		for _, try := range r.Try {
			f, ok := controlplane.LeverByName(try.Lever)
			switch {
			case try.Lever == "" && try.Do == "" || ok != (try.Lever != "") ||
				ok != (try.Level != "" || try.LevelOf != nil):
				t.Errorf("%s: %+v", r.Code, try)
			case try.Level != "":
				if _, err := f.Canonical(try.Level); err != nil {
					t.Errorf("%s: %s at %s: %v", r.Code, try.Lever, try.Level, err)
				}
			}
		}
	}
	names := map[string]bool{}
	for _, q := range quantities {
		if !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(q.Name) || names[q.Name] || q.Words == "" {
			t.Errorf("%+v", q)
		}
		names[q.Name] = true
		if _, ok := controlplane.LeverByName(q.Lever); ok != (q.Lever != "") || q.Finding != "" &&
			!study.IsFinding(q.Finding) {
			t.Errorf("%s: lever %q, finding %q", q, q.Lever, q.Finding)
		}
		if q.Formula == nil && q != CPUIdle && q.Measure == "" {
			t.Errorf("%s does not say how it is measured", q)
		}
		if q.Query == "" {
			continue
		}
		if _, err := newParser().ParseExpr(placeholders.Replace(q.Query)); err != nil || len(metricsIn(q.Query)) == 0 {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// TestRulesDocument compares the table of rules in docs/advice.md with the catalogue.
func TestRulesDocument(t *testing.T) {
	var b strings.Builder
	for _, r := range rules {
		var tries []string
		for _, try := range r.Try {
			name := "by hand"
			if try.Lever != "" {
				name = "`" + try.Lever + "`"
			}
			if !slices.Contains(tries, name) {
				tries = append(tries, name)
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Code, r.Condition, strings.Join(tries, ", "))
	}
	golden.Section(t, "../../docs/advice.md", "| rule | holds when | tries |\n|---|---|---|\n", "\n\n",
		strings.TrimSuffix(b.String(), "\n"))
}
