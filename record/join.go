package record

// Join describes how a newly connected proxy received its first configuration,
// according to istiod's log of a new pod: from the first request on its stream
// to the last response before the proxy had everything it requested and no more
// responses followed. It excludes what a proxy does with the configuration,
// such as Envoy building clusters and listeners.
type Join struct {
	Proxy     string `json:"proxy"` // NAME.NAMESPACE of its pod
	Namespace string `json:"namespace"`
	// TotalUS is the time from the first request to the last response, in
	// microseconds.
	TotalUS int64 `json:"total_us"`
	// Types has what was received, by type of resource. It contains only types
	// with a response.
	Types map[string]JoinType `json:"types"`
	// CacheHits and CacheMisses count istiod's reads of its cache of generated
	// resources in that time (xds_cache_reads). Other proxies may have caused
	// some of them. Both are 0 if this istiod does not report them.
	CacheHits   float64 `json:"cache_hits,omitempty"`
	CacheMisses float64 `json:"cache_misses,omitempty"`
}

// JoinType is what a joining proxy received for one type.
type JoinType struct {
	Responses int64 `json:"responses"`
	Resources int64 `json:"resources"`
	Bytes     int64 `json:"bytes"` // of messages, before encryption
	// FirstUS and LastUS are the times of the first and the last response, in
	// microseconds after the proxy's first request.
	FirstUS int64 `json:"first_us"`
	LastUS  int64 `json:"last_us"`
}

// Bytes returns the total over all types.
func (j *Join) Bytes() int64 {
	sum := int64(0)
	for _, t := range j.Types {
		sum += t.Bytes
	}
	return sum
}
