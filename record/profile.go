package record

// Profiled says where a part of a trial spent its CPU time. It was taken while
// the same load ran once more, after the window, so that what profiling costs
// is in no other figure of the trial.
type Profiled struct {
	Part string `json:"part"` // PartClientProxy, PartServerProxy
	// File is the profile in pprof's form, and Filters the filters that the
	// proxy was configured with, both relative to the run directory; "" if it
	// could not be had.
	File    string  `json:"file,omitempty"`
	Filters string  `json:"filters,omitempty"`
	Hz      int     `json:"hz"` // samples per second of each thread's CPU time
	Graph   string  `json:"graph"`
	Seconds float64 `json:"s"` // for which it was taken
	Samples int64   `json:"samples"`
	// Trust is the share of samples in user space that have a name that can
	// be believed.
	Trust float64 `json:"trust"`
	// CPU is what the part used while it was profiled, in CPUSeconds; nil if
	// nobody measured it.
	CPU        *CPU    `json:"cpu,omitempty"`
	CPUSeconds float64 `json:"cpu_s,omitempty"`
	// Ended says that its processes ended in mid-profile, Error why there is
	// no profile.
	Ended bool     `json:"ended,omitempty"`
	Error string   `json:"error,omitempty"`
	Notes []string `json:"notes,omitempty"`
}
