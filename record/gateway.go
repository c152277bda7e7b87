package record

// Served is what requests through a real gateway met at a new route. They left on a
// schedule of their own, whatever became of those before; times are microseconds after
// Event.CommittedNS.
type Served struct {
	// GoodUS is when the first request left that the route served, AnsweredUS when its
	// answer had come; nil: none was served.
	GoodUS     *int64 `json:"good_us,omitempty"`
	AnsweredUS *int64 `json:"answered_us,omitempty"`
	// BadUS is when the last one left before it that was not served; nil: there was none.
	BadUS *int64 `json:"bad_us,omitempty"`
	// Statuses count the requests by the status of their answer, "error" without one.
	Statuses map[string]int `json:"statuses"`
	// Relapses are requests that left after the first good one and were not served.
	Relapses int `json:"relapses,omitempty"`
	// Failed are requests that were not served, but for those that were told, before the
	// route was there, that it is not.
	Failed int `json:"failed,omitempty"`
}

// Requests is how many were sent.
func (s Served) Requests() int {
	sum := 0
	for _, n := range s.Statuses {
		sum += n
	}
	return sum
}

// Gateway is how requests through a real gateway were sent in a window.
type Gateway struct {
	EveryUS int64 `json:"every_us"` // between two requests to a route that is new
	Routes  int   `json:"routes"`   // that were asked for
	// LateUS is how late requests left at the most, Unsent how many did not leave
	// because too many were out.
	LateUS int64 `json:"late_us"`
	Unsent int   `json:"unsent,omitempty"`
}

// Attached is what the status of a Gateway said of the routes attached to it, by a
// watch of our own.
type Attached struct {
	Routes int `json:"routes"` // that were made
	// AllUS is from the last route's commit until the status had all of them, FirstUS
	// from the first one's; nil: it never had.
	AllUS   *int64 `json:"all_us,omitempty"`
	FirstUS *int64 `json:"all_since_first_us,omitempty"`
	// NoneUS is from the answer to the last deletion until it had none, and
	// NoneFirstUS from the first deletion's leaving; nil: it never had.
	NoneUS      *int64 `json:"none_us,omitempty"`
	NoneFirstUS *int64 `json:"none_since_first_us,omitempty"`
	// Writes are those of the Gateway's status while routes came, and Unwrites those
	// while they went.
	Writes   int `json:"writes"`
	Unwrites int `json:"writes_down"`
	// Kept says that not all routes were deleted: what the status does as they go is not known.
	Kept bool `json:"kept,omitempty"`
	// Most is the highest number that the status ever had.
	Most int `json:"most"`
}
