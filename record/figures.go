package record

import "github.com/meshtrial/meshtrial/internal/note"

// CPUPerRequest is microseconds of CPU per request, user and kernel apart.
type CPUPerRequest struct {
	UserUS   float64 `json:"user_us"`
	SystemUS float64 `json:"system_us"`
	// LowUS and HighUS are the interval of the sum; equal where there is
	// none, as with a single block.
	LowUS  float64 `json:"low_us"`
	HighUS float64 `json:"high_us"`
	// Whole says that user and kernel time are not told apart: UserUS is both.
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

// Published sets a figure of the literature beside ours.
type Published struct {
	Source  string  `json:"source"`
	Claim   string  `json:"claim"` // in words
	Finding string  `json:"finding"`
	Cell    Cell    `json:"cell"`
	Figure  float64 `json:"figure"`
	Unit    string  `json:"unit"`
	// Measured is the finding's estimate; absent if there is none.
	Measured *Finding `json:"measured,omitempty"`
	// Says compares both: where they differ and why.
	Says []note.Note `json:"says"`
}
