package profile_test

import (
	"math"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/testing/must"
)

func folded(t *testing.T, text string) *profile.Profile {
	t.Helper()
	p, err := profile.ReadFolded(strings.NewReader(text))
	must.OK(t, err)
	p.Distrust(nil)
	return p
}

// With few samples, a profile's summary, page and difference report that there
// are too few.
func TestTooFew(t *testing.T) {
	few, enough := folded(t, "main;a 1\nmain;b 1\nmain;c 1\n"), folded(t, "main;a 20\nmain;b 10\n")
	s, view := profile.Summarise("p", []*profile.Profile{few}, nil, 10)
	const want = "only 3 samples: too few to say where CPU time went"
	if !s.TooFew || len(view.Notes) == 0 || !strings.HasPrefix(view.Notes[0], want) {
		t.Errorf("%v %q", s.TooFew, view.Notes)
	}
	if s, view := profile.Summarise("p", []*profile.Profile{enough}, nil, 10); s.TooFew || strings.Contains(strings.Join(view.Notes, " "), "too few") {
		t.Errorf("%v %q", s.TooFew, view.Notes)
	}
	d, err := profile.Compare([]*profile.Profile{enough}, []*profile.Profile{few})
	if err != nil || !d.TooFew || len(d.Warnings) != 1 || !strings.HasPrefix(d.Warnings[0].String(), "after: "+want) {
		t.Errorf("%q %v", d.Warnings, err)
	}
	if d, _ := profile.Compare([]*profile.Profile{enough}, []*profile.Profile{enough}); d.TooFew || len(d.Warnings) > 0 {
		t.Error(d.Warnings)
	}
	if profile.TooFew("heap", 1) || profile.TooFew(profile.KindCPU, profile.LeastSamples) {
		t.Error("enough is called too few")
	}
	if got := profile.Few(1).String(); !strings.HasPrefix(got, "only 1 sample: ") {
		t.Error(got)
	}
}

// Wilson's intervals match Newcombe, Statistics in Medicine 17 (1998), table I,
// method 3.
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		r, n      int64
		low, high float64
	}{{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}} {
		low, high := profile.Wilson(float64(c.r)/float64(c.n), c.n)
		if math.Abs(low-c.low) > 5e-5 || math.Abs(high-c.high) > 5e-5 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.r, c.n, low, high, c.low, c.high)
		}
	}
}
