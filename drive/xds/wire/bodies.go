package wire

// Fields of envoy.config.cluster.v3.Cluster and its EdsClusterConfig.
const (
	clusterName        = 1
	clusterType        = 2
	clusterEDSConfig   = 3
	edsServiceName     = 2
	clusterTypeEDS     = 3 // of DiscoveryType
	listenerChains     = 3
	listenerFilters    = 9
	listenerDefault    = 25
	chainFilters       = 3
	filterName         = 1
	filterTypedConfig  = 4
	filterDiscovery    = 5
	hcmRDS             = 3
	hcmHTTPFilters     = 5
	rdsRouteConfigName = 2
)

// Cluster has the fields of a cluster that a proxy needs to ask for its endpoints.
type Cluster struct {
	Name []byte
	EDS  bool
	// ServiceName is the EDS resource name of its endpoints, by default the name
	// of the cluster.
	ServiceName []byte
}

// ParseCluster reads a body of type Cluster.
func ParseCluster(body []byte) (Cluster, error) {
	var out Cluster
	err := each("cluster", body, func(f field) error {
		switch f.num {
		case clusterName:
			out.Name = f.bytes
			return f.wantBytes("cluster")
		case clusterType:
			out.EDS = f.number == clusterTypeEDS
		case clusterEDSConfig:
			if err := f.wantBytes("cluster"); err != nil {
				return err
			}
			return within("EDS configuration", f.bytes, edsServiceName, func(name []byte) error {
				out.ServiceName = name
				return nil
			})
		}
		return nil
	})
	if len(out.ServiceName) == 0 {
		out.ServiceName = out.Name
	}
	return out, err
}

// Listener has the fields of a listener that a proxy needs to ask for its routes
// and extensions. Names may be repeated.
type Listener struct {
	Routes     [][]byte // names of route configurations
	Extensions [][]byte // names of filters whose configuration is discovered
}

// ParseListener reads a body of type Listener.
func ParseListener(body []byte) (Listener, error) {
	var out Listener
	err := each("listener", body, func(f field) error {
		switch f.num {
		case listenerChains, listenerDefault:
			if err := f.wantBytes("listener"); err != nil {
				return err
			}
			return within("filter chain", f.bytes, chainFilters, func(b []byte) error { return out.filter("filter", b, true) })
		case listenerFilters:
			if err := f.wantBytes("listener"); err != nil {
				return err
			}
			return out.filter("listener filter", f.bytes, false)
		}
		return nil
	})
	return out, err
}

// filter reads a network, HTTP or listener filter: the fields read here have the
// same numbers in all three.
func (l *Listener) filter(what string, b []byte, deep bool) error {
	var name []byte
	discovered := false
	err := each(what, b, func(f field) error {
		switch {
		case f.num == filterName:
			name = f.bytes
			return f.wantBytes(what)
		case f.num == filterDiscovery:
			discovered = true
			return f.wantBytes(what)
		case f.num == filterTypedConfig && deep:
			if err := f.wantBytes(what); err != nil {
				return err
			}
			typeURL, value, err := parseAny(f.bytes)
			if err != nil || string(typeURL) != hcmType {
				return err
			}
			return l.connectionManager(value)
		}
		return nil
	})
	if err == nil && discovered {
		if len(l.Extensions) >= maxNames {
			return tooMany("extensions of a listener", maxNames)
		}
		l.Extensions = append(l.Extensions, name)
	}
	return err
}

func (l *Listener) connectionManager(b []byte) error {
	return each("HTTP connection manager", b, func(f field) error {
		if f.num != hcmRDS && f.num != hcmHTTPFilters {
			return nil
		}
		if err := f.wantBytes("HTTP connection manager"); err != nil {
			return err
		}
		if f.num == hcmHTTPFilters {
			return l.filter("HTTP filter", f.bytes, false)
		}
		return within("rds", f.bytes, rdsRouteConfigName, func(name []byte) error {
			if len(l.Routes) >= maxNames {
				return tooMany("routes of a listener", maxNames)
			}
			l.Routes = append(l.Routes, name)
			return nil
		})
	})
}
