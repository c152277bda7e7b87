package record

// Disruption is what a trial did to all connections once its window was over, and
// how they came back. Times are microseconds from its beginning.
type Disruption struct {
	Kind string `json:"kind"` // as the factor disruption has it, without a number
	// WatchedS is how long it was watched.
	WatchedS float64 `json:"watched_s"`
	// Lost counts the simulated proxies that lost their stream, Back those of them
	// that had all of their configuration again at the end.
	Lost int `json:"lost"`
	Back int `json:"back"`
	// RecoveredUS is when each of these had it, in order.
	RecoveredUS Times `json:"recovered_us,omitempty"`
	// Without is how long proxies were without all of their configuration after a
	// loss, over Returns losses that were over.
	Without Latency `json:"without_us"`
	Returns int64   `json:"returns"`
	// Losses counts streams of configured proxies that ended, Refused new ones that
	// istiod turned away for its limit, Failed other attempts that failed.
	Losses  int64 `json:"losses"`
	Refused int64 `json:"refused"`
	Failed  int64 `json:"failed"`
	// ReadyUS is when the last of istiod's new replicas was ready; 0 where none
	// was to come, -1 where they were not to the end.
	ReadyUS int64 `json:"ready_us,omitempty"`
	// CPUS is istiod's CPU time, CPUPeak the most cores that it used from one look
	// to the next, MemoryPeakBytes the most memory, of all replicas together.
	CPUS            float64 `json:"cpu_s"`
	CPUPeak         float64 `json:"cpu_peak_cores"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	// Imbalance is by what share the fullest replica has more connections than the
	// mean at the end; nil with one replica, or none that said. BalancedUS is from
	// when on it stayed within a quarter; nil if it did not.
	Imbalance  *float64 `json:"imbalance,omitempty"`
	BalancedUS *int64   `json:"balanced_us,omitempty"`
	// Points are istiod's replicas as time went on.
	Points []DisruptionPoint `json:"points"`
}

// DisruptionPoint is how things stood at one moment.
type DisruptionPoint struct {
	AtUS     int64          `json:"at_us"`
	Synced   int            `json:"synced"` // simulated proxies that have everything
	Replicas []ReplicaPoint `json:"replicas"`
}

// ReplicaPoint is one replica of istiod at one moment.
type ReplicaPoint struct {
	Pod   string `json:"pod"`
	New   bool   `json:"new,omitempty"` // was not there before the disruption
	Ready bool   `json:"ready"`
	// Connections are those that it counts; nil where it did not say.
	Connections *int `json:"connections,omitempty"`
	// CPUS is its CPU time since it began, or since the first look at one that was
	// there before; MemoryBytes what it has. nil and 0 where nobody looked.
	CPUS        *float64 `json:"cpu_s,omitempty"`
	MemoryBytes int64    `json:"memory_bytes,omitempty"`
}
