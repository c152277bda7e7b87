package record

import "testing"

func TestSampledPlus(t *testing.T) {
	a := Sampled{ErrorS: 3, LowS: 10, HighS: 20, Samples: 9, GapS: 1.5}
	b := Sampled{ErrorS: 4, LowS: 1, HighS: 2, Samples: 7, GapS: 2}
	if got, want := a.Plus(b), (Sampled{ErrorS: 5, LowS: 11, HighS: 22, Samples: 7, GapS: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := (Sampled{}).Plus(a); got != a {
		t.Errorf("the first of a part: %+v", got)
	}
}
