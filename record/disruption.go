package record

// Disruption is how a trial ended all connections once its window was over, and how they came
// back. Times are microseconds from its beginning.
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
	// Without is how long proxies were without all of their configuration after a loss, over
	// the Returns losses that ended.
	Without Latency `json:"without_us"`
	Returns int64   `json:"returns"`
	// Losses counts ended streams of configured proxies, Refused new ones that istiod rejected
	// for its limit, Failed other failed attempts.
	Losses  int64 `json:"losses"`
	Refused int64 `json:"refused"`
	Failed  int64 `json:"failed"`
	// ReadyUS is when the last of istiod's new replicas was ready; 0 if none was expected, -1
	// if they were not ready by the end.
	ReadyUS int64 `json:"ready_us,omitempty"`
	// CPUS is istiod's CPU time, CPUPeak the most cores that it used between two looks,
	// MemoryPeakBytes the most memory, of all replicas together.
	CPUS            float64 `json:"cpu_s"`
	CPUPeak         float64 `json:"cpu_peak_cores"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	// Imbalance is by what share the fullest replica has more connections than the mean at the
	// end; nil with one replica, or without counts. BalancedUS is the time from which it
	// stayed within a quarter; nil if it did not.
	Imbalance  *float64 `json:"imbalance,omitempty"`
	BalancedUS *int64   `json:"balanced_us,omitempty"`
	// Points are istiod's replicas over time.
	Points []DisruptionPoint `json:"points"`
}

// DisruptionPoint is the state at one moment.
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
	// Connections is its own count; nil if it did not report one.
	Connections *int `json:"connections,omitempty"`
	// CPUS is its CPU time since it began, or since the first look at one that was there
	// before; MemoryBytes its memory. nil and 0 if not read.
	CPUS        *float64 `json:"cpu_s,omitempty"`
	MemoryBytes int64    `json:"memory_bytes,omitempty"`
}
