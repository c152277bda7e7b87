package record

// Disruption describes how a trial ended all connections after its window, and how they
// recovered. Times are in microseconds since the disruption began.
type Disruption struct {
	Kind string `json:"kind"` // as in the factor disruption, without a number
	// WatchedS is the duration of observation.
	WatchedS float64 `json:"watched_s"`
	// Lost counts the simulated proxies that lost their stream. Back counts those of them that
	// had their complete configuration again at the end.
	Lost int `json:"lost"`
	Back int `json:"back"`
	// RecoveredUS is when each of these had its complete configuration, in ascending order.
	RecoveredUS Times `json:"recovered_us,omitempty"`
	// Without is how long proxies lacked their complete configuration after a loss, over the
	// Returns losses that ended.
	Without Latency `json:"without_us"`
	Returns int64   `json:"returns"`
	// Losses counts ended streams of configured proxies, Refused new streams that istiod
	// rejected because of its limit, and Failed other failed attempts.
	Losses  int64 `json:"losses"`
	Refused int64 `json:"refused"`
	Failed  int64 `json:"failed"`
	// ReadyUS is when the last of istiod's new replicas became ready; 0 if none was expected,
	// -1 if they were not ready by the end.
	ReadyUS int64 `json:"ready_us,omitempty"`
	// CPUS is istiod's CPU time, CPUPeak the most cores used between two samples, and
	// MemoryPeakBytes the peak memory, each over all replicas together.
	CPUS            float64 `json:"cpu_s"`
	CPUPeak         float64 `json:"cpu_peak_cores"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	// Imbalance is how far the connections of the fullest replica exceed the mean at the end,
	// as a share; nil with one replica or without counts. BalancedUS is when it fell within a
	// quarter for good; nil if it did not.
	Imbalance  *float64 `json:"imbalance,omitempty"`
	BalancedUS *int64   `json:"balanced_us,omitempty"`
	// Points has istiod's replicas over time.
	Points []DisruptionPoint `json:"points"`
}

// DisruptionPoint is the state at one moment.
type DisruptionPoint struct {
	AtUS     int64          `json:"at_us"`
	Synced   int            `json:"synced"` // simulated proxies with their complete configuration
	Replicas []ReplicaPoint `json:"replicas"`
}

// ReplicaPoint is the state of one replica of istiod at one moment.
type ReplicaPoint struct {
	Pod   string `json:"pod"`
	New   bool   `json:"new,omitempty"` // created after the disruption began
	Ready bool   `json:"ready"`
	// Connections is the replica's own count; nil if it did not report one.
	Connections *int `json:"connections,omitempty"`
	// CPUS is the replica's CPU time since it started, or since the first sample if it existed
	// before; nil if not read. MemoryBytes is its memory; 0 if not read.
	CPUS        *float64 `json:"cpu_s,omitempty"`
	MemoryBytes int64    `json:"memory_bytes,omitempty"`
}
