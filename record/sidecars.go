package record

// Sidecars is what the real sidecars of a control-plane trial used, none of
// which carried a request: while nothing changed and while changes were made.
type Sidecars struct {
	// Idle is of the time before the first change, Changing of the window; nil
	// where the counters of one could not be read.
	Idle     *SidecarUse `json:"idle,omitempty"`
	Changing *SidecarUse `json:"changing,omitempty"`
}

// SidecarUse is what sidecars used in a time, all of them together.
type SidecarUse struct {
	Sidecars int `json:"sidecars"`
	// SidecarSeconds is how long each was looked at, summed over sidecars.
	SidecarSeconds float64 `json:"sidecar_s"`
	CPU            CPU     `json:"cpu"`
	// PSSBytes is their proportional set size at the end; 0 where it could not
	// be read.
	PSSBytes int64 `json:"pss_bytes,omitempty"`
	// Processes is how much of both is whose, by the process' command; nil where
	// that could not be read. CPU time of threads that have ended is nobody's.
	Processes map[string]PartUse `json:"processes,omitempty"`
}

// PartUse is a process' part of what sidecars used.
type PartUse struct {
	CPUS     float64 `json:"cpu_s"`
	PSSBytes int64   `json:"pss_bytes,omitempty"`
}

// Processes of a sidecar of Istio's, by their commands.
const (
	ProcessEnvoy = "envoy"
	ProcessAgent = "pilot-agent"
)
