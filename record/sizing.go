package record

import "github.com/meshtrial/meshtrial/internal/note"

// Sizing compares ways of carrying requests in a described mesh, for one combination of a
// study's other factors.
type Sizing struct {
	Cell Cell   `json:"cell"` // the other factors that vary
	Mesh string `json:"mesh"` // the described mesh, in words
	// Along is the quantity, in words, along which lines are fitted to separate the
	// proxies' use; "" for rates.
	Along string     `json:"along,omitempty"`
	Ways  []SizedWay `json:"ways"`
	// Differences compare ways in the described mesh, within blocks.
	Differences []SizedDifference `json:"differences,omitempty"`
	// Borders has the points, along the mesh's properties, where the order of two ways
	// changes.
	Borders []SizedBorder `json:"borders,omitempty"`
	// Says compares the ways in the described mesh and includes the borders between them.
	Says  []note.Note `json:"says,omitempty"`
	Notes []note.Note `json:"notes,omitempty"`
}

// SizedWay is the cost of one way of carrying requests.
type SizedWay struct {
	Name string     `json:"name"`
	Uses []SizedUse `json:"uses"`
	// Machine is the additional use of the whole machine per request over a request without
	// proxies: the CPU of the proxies, the kernel and the pods themselves. Absent if not
	// measured.
	Machine *Priced `json:"machine,omitempty"`
}

// Use returns the way's use of a resource.
func (w SizedWay) Use(of string) (SizedUse, bool) {
	for _, u := range w.Uses {
		if u.Of == of {
			return u, true
		}
	}
	return SizedUse{}, false
}

// Has reports whether the way has proxies at a place.
func (w SizedWay) Has(place Place) bool {
	for _, u := range w.Uses {
		if _, ok := u.Idle[place]; ok {
			return true
		}
	}
	return false
}

// What sized uses measure.
const (
	SizedCPU    = "cpu"
	SizedMemory = "memory"
	SizedMonth  = "month" // the cost of both
)

// SizedUse is a way's use of CPU or memory, or its cost.
type SizedUse struct {
	Of    string `json:"of"`    // SizedCPU, SizedMemory or SizedMonth
	Total Priced `json:"total"` // in the described mesh
	// Idle is the use of each proxy without requests, by place. Request is what each
	// request adds over all proxies that it passes (for memory: each request per second).
	// Prices have neither.
	Idle    map[Place]Priced `json:"idle"`
	Request Priced           `json:"request"`
	// Pod is what each pod adds to proxies on nodes, if the study varies the number of
	// pods. The use per request is then not reported.
	Pod *Priced `json:"pod,omitempty"`
}

// SizedDifference is what one way uses more than another in the described mesh.
type SizedDifference struct {
	Of      string   `json:"of"`
	Between []string `json:"between"` // the names of two ways
	More    Priced   `json:"more"`    // the first way's use less the second's
	// Less is the way that uses less; "" if the interval includes zero, or there is none.
	Less string `json:"less,omitempty"`
}

// SizedBorder is where the order of two ways changes.
type SizedBorder struct {
	Of      string   `json:"of"`
	Between []string `json:"between"` // the names of two ways
	Along   string   `json:"along"`
	Low     float64  `json:"low"` // the ends of the examined range
	High    float64  `json:"high"`
	// Outcome is lies, none, between, beyond or unknown; see package stat/sizing.
	Outcome string `json:"outcome"`
	// First and Last are the cheaper ways at the low and the high end; "" if undecided.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	// At is where the estimates are equal. From and To bound the range in which the
	// interval includes zero. Absent if there are none.
	At   *float64  `json:"at,omitempty"`
	From *float64  `json:"from,omitempty"`
	To   *float64  `json:"to,omitempty"`
	Says note.Note `json:"says"`
}
