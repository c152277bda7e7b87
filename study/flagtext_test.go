package study

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshtrial/meshtrial/record"
)

// Flags that hints and plans name are taken by a shell, and then by the parser, as the
// levels that are meant.
func TestFlagText(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{FlagText("rate", "2000"), "rate=2000"},
		{FlagText("variants.a.retries", "off"), "variants.a.retries=off"},
		{FlagText("sidecar_hosts", "./*,istio-system/*"), "sidecar_hosts=./*,istio-system/*"},
		{FlagText("outlier_detection", "errors=5 interval=1s"), "'outlier_detection=errors=5 interval=1s'"},
		{FlagText("export_to", "*"), `'export_to="*"'`},
		{FlagText("export_to", "~"), `'export_to="~"'`},
		{FlagText("istiod_env", "A='x'"), `'istiod_env=A='\''x'\'''`},
		{listText("generators", []string{"2", "1"}), "generators=[2,1]"},
		{listText("rate", []string{"0.5", "max"}), "rate=[0.5,max]"},
		{listText("sidecar_hosts", []string{"./*,istio-system/*", "x/*"}), `'sidecar_hosts=["./*,istio-system/*",x/*]'`},
		{listText("outlier_detection", []string{"off", "errors=5 interval=1s"}), "'outlier_detection=[off,errors=5 interval=1s]'"},
		{cellText("baseline", record.Cell{FactorVariant: "a"}), "'baseline={variant: a}'"},
		{cellText("baseline", record.Cell{}), "baseline={}"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.StringMatching(`[ -~]{1,12}`).Draw(t, "level")
		for text, listed := range map[string]bool{levelText(level, false): false, "[" + levelText(level, true) + "]": true} {
			n, err := readTree([]byte(text), "", true)
			if err == nil && listed {
				n = n.values[0]
			}
			if err != nil || n.kind != scalar || n.text != level {
				t.Fatalf("%q is written as %s, which is read as %+v, %v", level, text, n, err)
			}
		}
		// What stands in single quotes a shell leaves as it is.
		if shell := shellText(level); shell != level && strings.ReplaceAll(shell[1:len(shell)-1], `'\''`, "'") != level {
			t.Fatalf("%q is %s to a shell", level, shell)
		}
	})
}
