package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/studytest"
)

func TestSoak(t *testing.T) {
	const good = "name: soak\nquestion: Does it leak?\ncontrol: {soak: true, changes: 10, idle: 0s}\nsettings: {proxies: 20, change_rate: 1}\nblocks: {min: 18, max: 600, limit: 2h}\n"
	p := studytest.Plan(t, good)
	s := p.Study
	if !Of(s).Soak || p.BlockSize() != 1 {
		t.Fatalf("a block has %d trials", p.BlockSize())
	}
	short, _ := controlTrial(s, p.Cells[0])
	Of(s).Soak = false
	fresh, _ := controlTrial(s, p.Cells[0])
	if fresh-short != restartTime+electedTime || short < 10*time.Second {
		t.Errorf("a window takes %v, a trial with a fresh istiod %v", short, fresh)
	}
	for _, c := range []struct{ from, to, want string }{
		{"blocks:", "factors: {services: [1, 2]}\nblocks:", "this study has 2"},
		{"blocks:", "variants: {a: {}, b: {services: 3}}\nblocks:", "a soak has one cell"},
		{"min: 18, max: 600", "min: 2, max: 17", "a soak of fewer than 18 windows"},
		{"blocks:", "stop: {finding: convergence_p50, half_width: 5%}\nblocks:", "must not end early"},
	} {
		if _, err := study.Parse([]byte(strings.Replace(good, c.from, c.to, 1)), "soak.yaml", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}
