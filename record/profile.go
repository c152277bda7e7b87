package record

// Profiled is a profile of where a part of a trial spent its CPU time. It is
// taken after the window, while the same load runs again, so the cost of
// profiling affects no other figure of the trial.
type Profiled struct {
	Part string `json:"part"` // PartClientProxy, PartServerProxy
	// File is the profile in pprof format. Filters lists the filters that the
	// proxy was configured with. Both are paths relative to the run directory;
	// "" if unavailable.
	File    string  `json:"file,omitempty"`
	Filters string  `json:"filters,omitempty"`
	Hz      int     `json:"hz"` // samples per second of each thread's CPU time
	Graph   string  `json:"graph"`
	Seconds float64 `json:"s"` // duration of the profile
	Samples int64   `json:"samples"`
	// Trust is the share of user-space samples with a trustworthy symbol name.
	Trust float64 `json:"trust"`
	// CPU is what the part used during CPUSeconds of the profile; nil if not
	// measured.
	CPU        *CPU    `json:"cpu,omitempty"`
	CPUSeconds float64 `json:"cpu_s,omitempty"`
	// Ended means that the part's processes ended during the profile. Error is
	// why there is no profile.
	Ended bool     `json:"ended,omitempty"`
	Error string   `json:"error,omitempty"`
	Notes []string `json:"notes,omitempty"`
}
