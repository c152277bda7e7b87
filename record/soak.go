package record

// Soak is what became of one istiod, and of real sidecars, that lived through a run.
type Soak struct {
	// Hours is how long the life that is told lasted, from its first window's end to its
	// last one's, and Windows how many of them are valid.
	Hours   float64 `json:"hours"`
	Windows int     `json:"windows"`
	// Lives is how many istiods the run had, one after the other, and Elsewhere how
	// many valid windows are of those that are not told.
	Lives     int `json:"lives"`
	Elsewhere int `json:"elsewhere,omitempty"`
	// MarginRatio is the growth per hour, of a figure itself, that does not matter.
	MarginRatio float64 `json:"margin_ratio"`
	// LimitBytes is what istiod's memory may come to, and LimitIs what that is; 0
	// where it is not known.
	LimitBytes int64    `json:"limit_bytes,omitempty"`
	LimitIs    string   `json:"limit_is,omitempty"`
	Growths    []Growth `json:"growths"`
}

// Growth is how one figure of a soak went.
type Growth struct {
	// Finding is the name of how fast it grows, Unit that of the figure itself.
	Finding string `json:"finding"`
	Unit    string `json:"unit"`
	// First is its median over the first windows, in which it warms up, Warm that over
	// the next third and Last that over the last one.
	First float64 `json:"first"`
	Warm  float64 `json:"warm"`
	Last  float64 `json:"last"`
	// NeedsHours is how long a soak would have to be for an answer, FullHours when the
	// limit would be reached at this rate, with the ends of its interval; 0 for none.
	NeedsHours    float64 `json:"needs_h,omitempty"`
	FullHours     float64 `json:"full_h,omitempty"`
	FullLowHours  float64 `json:"full_low_h,omitempty"`
	FullHighHours float64 `json:"full_high_h,omitempty"`
	// Points are its windows: hours since the first one, and the figure.
	Points []CurvePoint `json:"points"`
}
