package record

// Sidecars is the resource use of a control-plane trial's real sidecars, which
// carry no requests, both while idle and while changes are made.
type Sidecars struct {
	// Idle covers the time before the first change, Changing the window; nil if
	// a sidecar's counters could not be read.
	Idle     *SidecarUse `json:"idle,omitempty"`
	Changing *SidecarUse `json:"changing,omitempty"`
}

// SidecarUse is the use of all sidecars together in a period of time.
type SidecarUse struct {
	Sidecars int `json:"sidecars"`
	// SidecarSeconds is the observation time, summed over sidecars.
	SidecarSeconds float64 `json:"sidecar_s"`
	CPU            CPU     `json:"cpu"`
	// PSSBytes is the sidecars' proportional set size at the end; 0 if it could
	// not be read.
	PSSBytes int64 `json:"pss_bytes,omitempty"`
	// Processes splits both by process command; nil if that could not be read.
	// It omits the CPU time of threads that have ended.
	Processes map[string]PartUse `json:"processes,omitempty"`
}

// PartUse is a process's share of the sidecars' use.
type PartUse struct {
	CPUS     float64 `json:"cpu_s"`
	PSSBytes int64   `json:"pss_bytes,omitempty"`
}

// Processes of an Istio sidecar, by command.
const (
	ProcessEnvoy = "envoy"
	ProcessAgent = "pilot-agent"
)
