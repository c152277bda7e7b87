package study

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A shell, and then the parser, read the flags printed by a plan as the levels meant.
func TestFlagText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{FlagText("rate", "2000"), "rate=2000"},
		{FlagText("variants.a.retries", "off"), "variants.a.retries=off"},
		{FlagText("sidecar_hosts", "./*,istio-system/*"), "sidecar_hosts=./*,istio-system/*"},
		{FlagText("outlier_detection", "errors=5 interval=1s"), "'outlier_detection=errors=5 interval=1s'"},
		{FlagText("export_to", "*"), `'export_to="*"'`},
		{FlagText("export_to", "~"), `'export_to="~"'`},
		{FlagText("istiod_env", "A='x'"), `'istiod_env=A='\''x'\'''`},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.StringMatching(`[ -~]{1,12}`).Draw(t, "level")
		text := levelText(level)
		if n, err := readTree([]byte(text), "", true); err != nil || n.Kind != Scalar || n.Text != level {
			t.Fatalf("%q is written as %s, which is read as %+v, %v", level, text, n, err)
		}
		// A shell passes text in single quotes unchanged.
		if shell := shellText(level); shell != level && strings.ReplaceAll(shell[1:len(shell)-1], `'\''`, "'") != level {
			t.Fatalf("%q is %s to a shell", level, shell)
		}
	})
}
