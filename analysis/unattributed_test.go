package analysis

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/note"
	"github.com/meshtrial/meshtrial/record"
)

// Use of the machine by other processes is reported, with their names.
func TestUnattributed(t *testing.T) {
	hog := &record.Others{UnattributedRatio: 0.4, Who: []record.ProcessUse{{Command: "cc1", CPUS: 0.3}, {Command: "make", CPUS: 0.1}}}
	other := &record.Others{UnattributedRatio: 0.06, Who: []record.ProcessUse{{Command: "make", CPUS: 0.5}}}
	quiet := &record.Others{UnattributedRatio: 0.01}
	for _, c := range []struct {
		name   string
		others []*record.Others
		want   string
	}{
		{"nobody", []*record.Others{quiet, quiet}, ""},
		{"not known", []*record.Others{nil, nil}, ""},
		{"two", []*record.Others{hog, quiet, other, nil}, "in 2 of 3 trials more than 5% of the machine's CPU time (up to 40%) went to processes outside the study: most by make, cc1"},
		{"without a name", []*record.Others{{UnattributedRatio: 0.5}}, "(up to 50%) went to processes outside the study"},
	} {
		o := &Observations{}
		for _, others := range c.others {
			o.Run.Trials = append(o.Run.Trials, record.Trial{Others: others})
		}
		if got := note.Words(o.unattributed()); !strings.HasSuffix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
