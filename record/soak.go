package record

// Soak describes one istiod, and real sidecars, that lived through a run.
type Soak struct {
	// Hours is the duration of the reported life, from the end of its first window to
	// the end of its last. Windows is the number of its valid windows.
	Hours   float64 `json:"hours"`
	Windows int     `json:"windows"`
	// Lives is the number of consecutive istiods in the run. Elsewhere is the number of
	// valid windows of lives that are not reported.
	Lives     int `json:"lives"`
	Elsewhere int `json:"elsewhere,omitempty"`
	// MarginRatio is the growth per hour, relative to the figure, that does not matter.
	MarginRatio float64 `json:"margin_ratio"`
	// LimitBytes is the limit of istiod's memory, and LimitIs what kind of limit it is;
	// 0 if unknown.
	LimitBytes int64    `json:"limit_bytes,omitempty"`
	LimitIs    string   `json:"limit_is,omitempty"`
	Growths    []Growth `json:"growths"`
}

// Growth is the development of one figure of a soak.
type Growth struct {
	// Finding is the name of the finding for its growth rate, Unit the unit of the
	// figure itself.
	Finding string `json:"finding"`
	Unit    string `json:"unit"`
	// First is the median over the first windows, during warm-up, Warm the median over
	// the next third and Last that over the final one.
	First float64 `json:"first"`
	Warm  float64 `json:"warm"`
	Last  float64 `json:"last"`
	// NeedsHours is the soak duration needed for an answer. FullHours is when the limit
	// would be reached at this rate, with its interval; 0 for none.
	NeedsHours    float64 `json:"needs_h,omitempty"`
	FullHours     float64 `json:"full_h,omitempty"`
	FullLowHours  float64 `json:"full_low_h,omitempty"`
	FullHighHours float64 `json:"full_high_h,omitempty"`
	// Points has its windows: hours since the first one, and the figure.
	Points []CurvePoint `json:"points"`
}
