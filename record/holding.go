package record

// Holding is the configuration that one proxy held at the end of a trial, and
// its owners: from the config dump of a real Envoy, or from a simulated proxy,
// which stands for all of its kind.
type Holding struct {
	Proxy     string `json:"proxy"` // NAME.NAMESPACE of its pod
	Namespace string `json:"namespace"`
	Type      string `json:"type"` // sidecar or router
	Real      bool   `json:"real,omitempty"`
	// Proxies is the number of proxies it stands for. For a simulated proxy
	// these are the proxies of its type, in any namespace, that hold the same
	// amount.
	Proxies int `json:"proxies"`
	// DumpBytes is the size as JSON. For a real Envoy this is the complete
	// response to /config_dump?include_eds; for a simulated proxy it is what
	// Envoy would print for the same resources. EndpointDumpBytes is the part
	// taken by endpoints, which a plain /config_dump leaves out.
	DumpBytes         int64 `json:"dump_bytes"`
	EndpointDumpBytes int64 `json:"endpoint_dump_bytes"`
	// WireBytes is the size as protobuf; 0 for a real Envoy, whose dump does
	// not contain it.
	WireBytes int64 `json:"wire_bytes,omitempty"`
	Resources int   `json:"resources"`
	// Owners has the owners of most of the configuration, largest first; the
	// rest are summed up.
	Owners []OwnerBytes `json:"owners"`
	Others OwnerBytes   `json:"others"`
	// OtherOwners is the number of owners in the rest.
	OtherOwners int `json:"other_owners,omitempty"`
	// Largest has the largest resources.
	Largest []ResourceBytes `json:"largest,omitempty"`
	// File is the complete configuration in the run directory; "" if it was not
	// kept.
	File string `json:"file,omitempty"`
}

// OwnerBytes is the configuration that one owner contributed.
type OwnerBytes struct {
	// Owner is "Kind namespace/name".
	Owner     string `json:"owner,omitempty"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
	Resources int    `json:"resources"`
}

// ResourceBytes is the size of one resource.
type ResourceBytes struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
}
