package record

import "github.com/meshtrial/meshtrial/internal/note"

// Sizing sets ways of carrying requests side by side in a stated mesh, in one
// combination of a study's other factors.
type Sizing struct {
	Cell Cell   `json:"cell"` // the other factors that vary
	Mesh string `json:"mesh"` // that is stated, in words
	// Along is what the lines are along that tell proxies' use apart, in words; "" for
	// rates.
	Along string     `json:"along,omitempty"`
	Ways  []SizedWay `json:"ways"`
	// Borders are where, along what the mesh is like, two ways change places.
	Borders []SizedBorder `json:"borders,omitempty"`
	// Says compares the ways in the stated mesh, and has the borders between them.
	Says  []note.Note `json:"says,omitempty"`
	Notes []note.Note `json:"notes,omitempty"`
}

// SizedWay is what a way of carrying takes.
type SizedWay struct {
	Name string     `json:"name"`
	Uses []SizedUse `json:"uses"`
	// Machine is what each request takes of the whole machine beyond one that no proxy
	// carries: the proxies' CPU with that of the kernel and of the pods themselves.
	// Absent where that was not measured.
	Machine *Priced `json:"machine,omitempty"`
}

// What sized uses are of.
const (
	SizedCPU    = "cpu"
	SizedMemory = "memory"
	SizedMonth  = "month" // what both cost
)

// SizedUse is what a way takes of CPU or memory, or what it costs.
type SizedUse struct {
	Of    string `json:"of"`    // SizedCPU, SizedMemory or SizedMonth
	Total Priced `json:"total"` // in the stated mesh
	// Idle is what each proxy takes without requests, by its place, and Request what
	// each request adds at all proxies that it passes (memory: each request per second). Of
	// a price neither is told.
	Idle    map[Place]Priced `json:"idle"`
	Request Priced           `json:"request"`
	// Pod is what each pod adds to proxies on nodes, where the study varies how many
	// there are; what a request adds it does not tell then.
	Pod *Priced `json:"pod,omitempty"`
}

// SizedBorder is where two ways change places.
type SizedBorder struct {
	Of      string   `json:"of"`
	Between []string `json:"between"` // two names of ways
	Along   string   `json:"along"`
	Low     float64  `json:"low"` // the ends of what was looked at
	High    float64  `json:"high"`
	// Outcome is lies, none, between, beyond or unknown; see package stat/sizing.
	Outcome string `json:"outcome"`
	// First and Last are the ways that take less at the low and the high end; "" where
	// that cannot be said.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	// At is where the estimates are equal, and From and To the ends of where the
	// interval includes zero; absent where there are none.
	At   *float64  `json:"at,omitempty"`
	From *float64  `json:"from,omitempty"`
	To   *float64  `json:"to,omitempty"`
	Says note.Note `json:"says"`
}
