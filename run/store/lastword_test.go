package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestLastWords(t *testing.T) {
	const log = "10:00:00.000 trial b000-t00 begins\n10:00:01.000   2.01 s: step gone: remove bar\n10:00:09.000 trial b000-t00, drain: valid true, warm-up 2 s (steady)\n" +
		"10:00:10.000 trial b000-t01 begins\n10:00:12.000   1.01 s: step gone: remove bar\n10:00:13.000   2.00 s: step aw"
	one := []record.Trial{{ID: "b000-t00"}}
	for name, c := range map[string]struct {
		log   string
		ended []record.Trial
		want  string
	}{
		"no log":          {},
		"of another kind": {log: "10:00:00.000 deploying\n"},
		"in a trial":      {log, one, `trial b000-t01 did not end; the last that log.txt says of it is "10:00:12.000   1.01 s: step gone: remove bar"`},
		"between trials":  {log[:strings.Index(log, "10:00:10")], one, ""},
		"the first":       {log[:40], nil, `trial b000-t00 did not end; the last that log.txt says of it is "10:00:00.000 trial b000-t00 begins"`},
		"it did end":      {log, append(one, record.Trial{ID: "b000-t01"}), ""},
		"a long log":      {strings.Repeat("10:00:00.000 x\n", maxLastWords/10) + log, one, "trial b000-t01 did not end"},
	} {
		dir := t.TempDir()
		if c.log != "" {
			if err := os.WriteFile(filepath.Join(dir, FileLog), []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := lastWords(dir, c.ended)
		if err != nil || got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
