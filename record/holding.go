package record

// Holding is the configuration that one proxy held at the end of a trial, and
// who brought it: a real Envoy's by its config dump, or that of a simulated
// proxy, which stands for all of its kind.
type Holding struct {
	Proxy     string `json:"proxy"` // NAME.NAMESPACE of its pod
	Namespace string `json:"namespace"`
	Type      string `json:"type"` // sidecar or router
	Real      bool   `json:"real,omitempty"`
	// Proxies is how many it stands for: of a simulated proxy those of its
	// type, in its namespace and in others, that hold as much.
	Proxies int `json:"proxies"`
	// DumpBytes is its size as JSON: of a real Envoy the whole answer of
	// /config_dump?include_eds, of a simulated proxy what Envoy would print of
	// the same resources. EndpointDumpBytes is what of it are endpoints, which
	// a plain /config_dump leaves out.
	DumpBytes         int64 `json:"dump_bytes"`
	EndpointDumpBytes int64 `json:"endpoint_dump_bytes"`
	// WireBytes is its size as protobuf; 0 of a real Envoy, whose dump does not
	// tell.
	WireBytes int64 `json:"wire_bytes,omitempty"`
	Resources int   `json:"resources"`
	// Owners brought most of it, largest first; the rest are summed up.
	Owners []OwnerBytes `json:"owners"`
	Others OwnerBytes   `json:"others"`
	// OtherOwners is how many those are.
	OtherOwners int `json:"other_owners,omitempty"`
	// Largest are its largest resources.
	Largest []ResourceBytes `json:"largest,omitempty"`
	// File is the whole of it in the run directory; "" where it was not kept.
	File string `json:"file,omitempty"`
}

// OwnerBytes is what an owner brought.
type OwnerBytes struct {
	// Owner is "Kind namespace/name".
	Owner     string `json:"owner,omitempty"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
	Resources int    `json:"resources"`
}

// ResourceBytes is one resource.
type ResourceBytes struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	DumpBytes int64  `json:"dump_bytes"`
	WireBytes int64  `json:"wire_bytes,omitempty"`
}
