package model

import "github.com/meshtrial/meshtrial/advise/capacity/push"

// Parameter is an index into [Values].
type Parameter int

// The parameters of istiod and of the proxies next to it.
const (
	Watch Parameter = iota
	ChangeCPU
	Context
	ContextPerService
	SkipCPU
	ConnectCPU
	ConnectPerService
	Parallel
	IdleCores
	IdleCoresPerProxy
	Beside
	BesidePerByte
	Apply
	ApplyPerByte
	Memory
	MemoryPerProxy
	MemoryPerService
	MemoryPerPair
	MemoryPerRate
	CDSCPUPerChange
	CDSBytesPerChange
	EDSCPUPerChange
	EDSBytesPerChange
	EDSCPUWhole
	EDSBytesWhole
	RDSCPUAnew
	firstOfTypes // perType parameters for each type from here on
)

// Parameters of each type of resource.
const (
	typeCPU = iota
	typeCPUPerService
	typeBytes
	typeBytesPerService
	perType
)

// Parameters is the number of parameters.
const Parameters = int(firstOfTypes) + perType*int(push.Types)

// CPUOf is the CPU time of one push of a type to one proxy, whatever it merges.
func CPUOf(t push.Type) Parameter { return ofType(t, typeCPU) }

// CPUPerServiceOf is the CPU time that each service visible to the proxy adds.
func CPUPerServiceOf(t push.Type) Parameter { return ofType(t, typeCPUPerService) }

// BytesOf is the size of one push of a type to one proxy, counted like [CPUOf].
func BytesOf(t push.Type) Parameter { return ofType(t, typeBytes) }

// BytesPerServiceOf is the number of bytes that each service visible to the proxy
// adds.
func BytesPerServiceOf(t push.Type) Parameter { return ofType(t, typeBytesPerService) }

func ofType(t push.Type, nth Parameter) Parameter { return firstOfTypes + perType*Parameter(t) + nth }

// ByDifference reports whether istiod sends a type as differences: what changed
// rather than everything that a proxy has of it (pilot/pkg/xds: only CDS and EDS
// have delta generators for sidecars).
func ByDifference(t push.Type) bool { return t == push.CDS || t == push.EDS }

// CPUPerChangeOf is the CPU time that each change with its own part adds to a push
// of a type sent as differences.
func CPUPerChangeOf(t push.Type) Parameter {
	if t == push.CDS {
		return CDSCPUPerChange
	}
	return EDSCPUPerChange
}

// BytesPerChangeOf is the number of bytes that such a change adds.
func BytesPerChangeOf(t push.Type) Parameter {
	if t == push.CDS {
		return CDSBytesPerChange
	}
	return EDSBytesPerChange
}

// Values has a value for each parameter.
type Values [Parameters]float64

// Definition describes a parameter.
type Definition struct {
	Name, Unit, Meaning string
	// Assumed is the value if runs do not determine it, and Because the reason for
	// that value.
	Assumed float64
	Because string
	// Study is the command of a study that would determine it.
	Study string
}

// Definitions has an entry for each parameter, in their order.
var Definitions = definitions()

// Commands of runs from which the fit can learn something.
const (
	theStudy   = "meshtrial run capacity-holdout" // several sizes, services and rates, overlapping pushes
	useless    = "meshtrial run capacity-holdout --set change=gateway"
	newStreams = "meshtrial run capacity-holdout --set clients=reconnect-storm"
)

func definitions() [Parameters]Definition {
	d := [Parameters]Definition{
		Watch:             {"watch", "s", "from a change's commit until istiod has been told", 0.003, "what the local lab's API server takes", theStudy},
		ChangeCPU:         {"change_cpu", "s", "istiod's CPU time for a change before it is pushed to anybody", 0, "it is small beside what pushes cost", theStudy},
		Context:           {"context", "s", "time of a push context", 0.0005, "what a mesh of few services takes", theStudy},
		ContextPerService: {"context_per_service", "s", "what each service adds to a push context in which configuration changed", 5e-6, "what the local lab takes for 300 services", theStudy},
		SkipCPU:           {"skip_cpu", "s", "CPU time of the turn of a proxy that needs nothing", 30e-6, "a lookup of what changed in the proxy's scope, and the turn's goroutine", useless},
		ConnectCPU:        {"connect_cpu", "s", "CPU time to serve a new stream: handshake, certificate check, the proxy's state, its first configuration", 0.005, "two signatures and a handshake of mutual TLS", newStreams},
		ConnectPerService: {"connect_cpu_per_service", "s", "what each service that the proxy sees adds to it", 4e-5, "what endpoints and routes take where they are made anew, and half as much again for a cluster: what a new stream is sent is not put into istiod's cache", newStreams},
		Parallel:          {"parallel", "CPUs", "CPU time in all for each second of a turn's own path: garbage collection, transport and acknowledgements beside it", 1.5, "garbage collection may take a quarter of the CPUs, and the transport writes beside the turn", theStudy},
		IdleCores:         {"idle_cores", "cores", "what istiod uses without changes", 0.003, "what an istiod without proxies uses in the local lab", theStudy},
		IdleCoresPerProxy: {"idle_cores_per_proxy", "cores", "what each connected proxy adds to it", 0, "keepalives alone", theStudy},
		Beside:            {"beside", "s", "CPU time that the simulated proxies on the same machine spend on a push of one type to one of them", 0, "proxies run on other machines", theStudy},
		BesidePerByte:     {"beside_per_byte", "s/byte", "what each byte adds to it", 0, "proxies run on other machines", theStudy},
		Apply:             {"apply", "s", "from sending until a proxy has acknowledged", 0.01, "a network's round trip and Envoy's own time for a small update", theStudy},
		ApplyPerByte:      {"apply_per_byte", "s/byte", "what each byte adds to it", 0, "a message takes no time by its size", theStudy},
		Memory:            {"memory", "bytes", "istiod's memory without proxies and services", 60e6, "an istiod without proxies in the local lab", theStudy},
		MemoryPerProxy:    {"memory_per_proxy", "bytes", "what each connected proxy adds", 250e3, "a stream over mutual TLS with its goroutines, buffers and watched names", theStudy},
		MemoryPerService:  {"memory_per_service", "bytes", "what each service adds", 30e3, "its objects in caches and indexes", theStudy},
		MemoryPerPair:     {"memory_per_proxy_service", "bytes", "what each service that a proxy sees adds, for each proxy", 400, "what the local lab takes: a service's names in the proxy's lists of watched clusters and endpoints", theStudy},
		MemoryPerRate:     {"memory_per_rate", "bytes/(byte/s)", "what sending adds: garbage not collected yet, messages on their way", 0, "nothing is left of what was sent", theStudy},
		CDSCPUPerChange:   {"cds_cpu_per_change", "s", "istiod's CPU time for each change in a push of cds to one proxy that makes a cluster anew", 0.0003, "a cluster, looked up or built", theStudy},
		CDSBytesPerChange: {"cds_bytes_per_change", "bytes", "bytes of each such change", 1500, "a cluster with its metadata and mutual TLS", theStudy},
		EDSCPUPerChange:   {"eds_cpu_per_change", "s", "istiod's CPU time for each change in a push of eds to one proxy", 0.0001, "the endpoints of one service", theStudy},
		EDSBytesPerChange: {"eds_bytes_per_change", "bytes", "bytes of each change in it", 500, "two endpoints with their metadata", theStudy},
		EDSCPUWhole:       {"eds_cpu_whole", "s", "what each service that the proxy sees adds to a push of all endpoints", 1.5e-5, "what a run of 200 proxies and 300 services spent: a lookup in istiod's cache, which mostly misses while pushes overlap", theStudy},
		EDSBytesWhole:     {"eds_bytes_whole", "bytes", "bytes of each service in a push of all endpoints", 500, "they are the same endpoints that a change of that service brings", theStudy},
		RDSCPUAnew:        {"rds_cpu_anew", "s", "what each service that the proxy sees adds to routes that are not in istiod's cache", 1e-5, "a virtual host with its domains, built, sorted and marshalled", theStudy},
	}
	for t := range push.Types {
		name, each := t.String(), "one push to one proxy"
		d[CPUOf(t)] = Definition{name + "_cpu", "s", "istiod's CPU time of " + name + " for " + each, 0.0005, "a message of one resource", theStudy}
		d[CPUPerServiceOf(t)] = Definition{name + "_cpu_per_service", "s", "what each service that the proxy sees adds to it", 0, "what is sent does not depend on them", theStudy}
		d[BytesOf(t)] = Definition{name + "_bytes", "bytes", "bytes of " + name + " for " + each, 500, "a message of one resource", theStudy}
		d[BytesPerServiceOf(t)] = Definition{name + "_bytes_per_service", "bytes", "what each service that the proxy sees adds to them", 0, "what is sent does not depend on them", theStudy}
	}
	rds, bytes := &d[CPUPerServiceOf(push.RDS)], &d[BytesPerServiceOf(push.RDS)]
	rds.Assumed, rds.Because = 3e-6, "a virtual host, copied from istiod's cache"
	bytes.Assumed, bytes.Because = 500, "a virtual host with its domains"
	return d
}

// Assumed returns the values for parameters without evidence from any run.
func Assumed() Values {
	var v Values
	for i, d := range Definitions {
		v[i] = d.Assumed
	}
	return v
}
