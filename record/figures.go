package record

import "github.com/meshtrial/meshtrial/internal/note"

// CPUPerRequest is CPU time per request in microseconds, split into user and
// kernel time.
type CPUPerRequest struct {
	UserUS   float64 `json:"user_us"`
	SystemUS float64 `json:"system_us"`
	// LowUS and HighUS are the interval of the sum. They are equal if there is
	// no interval, as with a single block.
	LowUS  float64 `json:"low_us"`
	HighUS float64 `json:"high_us"`
	// Whole means that user and kernel time are not separated: UserUS is both.
	Whole bool `json:"whole,omitempty"`
}

// CurvePoint is a point of a curve.
type CurvePoint struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// BlockValue is a value measured in one block.
type BlockValue struct {
	Block  int     `json:"block"`
	Repeat int     `json:"repeat"`
	Value  float64 `json:"value"`
}

// Published compares a figure from the literature with ours.
type Published struct {
	Source  string  `json:"source"`
	Claim   string  `json:"claim"` // in words
	Finding string  `json:"finding"`
	Cell    Cell    `json:"cell"`
	Figure  float64 `json:"figure"`
	Unit    string  `json:"unit"`
	// Measured is the finding's estimate; absent if there is none.
	Measured *Finding `json:"measured,omitempty"`
	// Says compares the two: where they differ and why.
	Says []note.Note `json:"says"`
}
