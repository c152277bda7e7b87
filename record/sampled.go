package record

import "math"

// Sampled says how well a part's CPU time in a window is known that was
// interpolated between a kubelet's samples; see package observe/kubelet. Times are
// in seconds.
type Sampled struct {
	// ErrorS is the standard error, if the part's rate is steady around the window
	// apart from independent fluctuations.
	ErrorS float64 `json:"error_s"`
	// LowS and HighS are what the part used at least and at most, whatever it did
	// between samples.
	LowS  float64 `json:"low_s"`
	HighS float64 `json:"high_s"`
	// Samples is how many samples there were, GapS the longest time between two.
	Samples int     `json:"samples"`
	GapS    float64 `json:"gap_s"`
}

// Plus is of two containers of one part together. Their errors are independent.
func (s Sampled) Plus(o Sampled) Sampled {
	if s.Samples == 0 {
		return o
	}
	return Sampled{ErrorS: math.Hypot(s.ErrorS, o.ErrorS), LowS: s.LowS + o.LowS, HighS: s.HighS + o.HighS,
		Samples: min(s.Samples, o.Samples), GapS: max(s.GapS, o.GapS)}
}
