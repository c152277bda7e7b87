package record

// Join is how a proxy that connects anew comes by its first configuration,
// as istiod's log tells it of a new pod: from the first request on its stream
// to the last response before it had all that it asked for and nothing more
// came. What a proxy does with it (an Envoy builds clusters and listeners) is
// not in it.
type Join struct {
	Proxy     string `json:"proxy"` // NAME.NAMESPACE of its pod
	Namespace string `json:"namespace"`
	// TotalUS is from the first request to the last response, microseconds.
	TotalUS int64 `json:"total_us"`
	// Types has what came by type of resource; only types that were answered.
	Types map[string]JoinType `json:"types"`
	// CacheHits and CacheMisses are istiod's reads of its cache of generated
	// resources meanwhile (xds_cache_reads), which other proxies may have made
	// too; both 0 where this istiod does not count them.
	CacheHits   float64 `json:"cache_hits,omitempty"`
	CacheMisses float64 `json:"cache_misses,omitempty"`
}

// JoinType is what a joining proxy received of one type.
type JoinType struct {
	Responses int64 `json:"responses"`
	Resources int64 `json:"resources"`
	Bytes     int64 `json:"bytes"` // of the messages, as on the wire before encryption
	// The first and the last response, microseconds after the proxy's first
	// request.
	FirstUS int64 `json:"first_us"`
	LastUS  int64 `json:"last_us"`
}

// Bytes is what came of all types together.
func (j *Join) Bytes() int64 {
	sum := int64(0)
	for _, t := range j.Types {
		sum += t.Bytes
	}
	return sum
}
