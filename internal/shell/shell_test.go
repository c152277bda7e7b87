package shell

import (
	"os/exec"
	"testing"

	"pgregory.net/rapid"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"runs/quick-1_a.b": "runs/quick-1_a.b",
		"":                 "''",
		"my runs":          "'my runs'",
		"~/a":              "'~/a'",
		"a*":               "'a*'",
		"it's":             `'it'\''s'`,
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// A shell reads back the word that was quoted.
func TestQuoteRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ -~\n\té]*`).Draw(t, "word")
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	})
}
