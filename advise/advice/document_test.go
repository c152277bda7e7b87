package advice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/testing/golden"
)

// TestEffectsDocument holds the table of effects in docs/advice.md to the rules.
func TestEffectsDocument(t *testing.T) {
	r, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	row := func(of string, e *Effect) {
		fmt.Fprintf(&b, "| %s | `%s` | `%s` | `%s` | %s |\n", of, e.Of, e.Low.text(), e.High.text(), e.From)
	}
	for _, rule := range r.Rules {
		row("`"+rule.ID+"`", rule.Effect)
		for _, try := range rule.Try {
			if try.Effect != nil {
				row("`"+rule.ID+"`, `"+try.Lever+"`", try.Effect)
			}
		}
	}
	golden.Section(t, "../../docs/advice.md", "| rule | quantity | from | to | rests on |\n|---|---|---|---|---|\n", "\n\nA level", strings.TrimSuffix(b.String(), "\n"))
}
