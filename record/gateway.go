package record

// Served is the outcome of requests through a real gateway for a new route. They were sent on a
// fixed schedule, independent of the outcome of earlier ones. Times are in microseconds after
// Event.CommittedNS.
type Served struct {
	// GoodUS is when the first request that the route served was sent, and AnsweredUS when its
	// response arrived; nil if none was served.
	GoodUS     *int64 `json:"good_us,omitempty"`
	AnsweredUS *int64 `json:"answered_us,omitempty"`
	// BadUS is when the last unserved request before it was sent; nil if there was none.
	BadUS *int64 `json:"bad_us,omitempty"`
	// Statuses counts the requests by response status; "error" if there was no response.
	Statuses map[string]int `json:"statuses"`
	// Relapses counts requests sent after the first good one that were not served.
	Relapses int `json:"relapses,omitempty"`
	// Failed counts requests that were not served, except those correctly rejected before the
	// route existed.
	Failed int `json:"failed,omitempty"`
}

// Requests returns the number of requests sent.
func (s Served) Requests() int {
	sum := 0
	for _, n := range s.Statuses {
		sum += n
	}
	return sum
}

// Gateway describes how requests through a real gateway were sent in a window.
type Gateway struct {
	EveryUS int64 `json:"every_us"` // between two requests to a new route
	Routes  int   `json:"routes"`   // that were requested
	// LateUS is the largest delay with which a request was sent. Unsent counts requests not
	// sent because too many were outstanding.
	LateUS int64 `json:"late_us"`
	Unsent int   `json:"unsent,omitempty"`
}

// Attached is what the status of a Gateway reported about its attached routes, as seen by a
// watch of our own.
type Attached struct {
	Routes int `json:"routes"` // that were created
	// AllUS is the time from the last route's commit until the status had all routes, FirstUS
	// the time from the first route's commit; nil if it never had all.
	AllUS   *int64 `json:"all_us,omitempty"`
	FirstUS *int64 `json:"all_since_first_us,omitempty"`
	// NoneUS is the time from the response to the last deletion until the status had no routes,
	// NoneFirstUS the time from sending the first deletion; nil if it never had none.
	NoneUS      *int64 `json:"none_us,omitempty"`
	NoneFirstUS *int64 `json:"none_since_first_us,omitempty"`
	// Writes counts writes of the Gateway's status while routes were created, Unwrites those
	// while they were deleted.
	Writes   int `json:"writes"`
	Unwrites int `json:"writes_down"`
	// Kept means that not all routes were deleted, so the status after deletion is unknown.
	Kept bool `json:"kept,omitempty"`
	// Most is the highest number of routes that the status ever had.
	Most int `json:"most"`
}
