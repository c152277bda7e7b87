package record

import "math"

// Sampled describes how accurately a part's CPU time in a window is known if it
// was interpolated between a kubelet's samples; see package observe/kubelet. Times
// are in seconds.
type Sampled struct {
	// ErrorS is the standard error, assuming a steady rate around the window with
	// independent fluctuations.
	ErrorS float64 `json:"error_s"`
	// LowS and HighS bound the part's use, whatever it did between samples.
	LowS  float64 `json:"low_s"`
	HighS float64 `json:"high_s"`
	// Samples is the number of samples, GapS the longest time between two of them.
	Samples int     `json:"samples"`
	GapS    float64 `json:"gap_s"`
}

// Plus combines two containers of one part, whose errors are independent.
func (s Sampled) Plus(o Sampled) Sampled {
	if s.Samples == 0 {
		return o
	}
	return Sampled{ErrorS: math.Hypot(s.ErrorS, o.ErrorS), LowS: s.LowS + o.LowS, HighS: s.HighS + o.HighS,
		Samples: min(s.Samples, o.Samples), GapS: max(s.GapS, o.GapS)}
}
