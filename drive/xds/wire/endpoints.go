package wire

// Fields of envoy.config.endpoint.v3.ClusterLoadAssignment and below, down to
// the address, and the health states in which an endpoint gets no traffic
// (envoy.config.core.v3.HealthStatus).
const (
	assignmentLocalities = 2
	localityEndpoints    = 2
	endpointOf           = 1
	endpointHealth       = 2
	endpointAddress      = 1
	addressSocket        = 1
	socketAddress        = 2

	healthUnhealthy = 2
	healthDraining  = 3
	healthTimeout   = 4
)

// Serves reports whether a body of type ClusterLoadAssignment has an endpoint
// with this address that may get traffic. Istiod also sends endpoints that are
// not ready, marked unhealthy.
func Serves(body, address []byte) (bool, error) {
	found := false
	err := within("load assignment", body, assignmentLocalities, func(locality []byte) error {
		return within("locality", locality, localityEndpoints, func(one []byte) error {
			if found {
				return nil
			}
			at, health, err := endpoint(one)
			found = string(at) == string(address) && health != healthUnhealthy && health != healthDraining && health != healthTimeout
			return err
		})
	})
	return found, err
}

// endpoint reads the address and the health of an LbEndpoint.
func endpoint(b []byte) (address []byte, health uint64, err error) {
	err = each("endpoint of a locality", b, func(f field) error {
		switch f.num {
		case endpointHealth:
			health = f.number
		case endpointOf:
			if err := f.wantBytes("endpoint of a locality"); err != nil {
				return err
			}
			return within("endpoint", f.bytes, endpointAddress, func(b []byte) error {
				return within("address", b, addressSocket, func(b []byte) error {
					return within("socket address", b, socketAddress, func(b []byte) error {
						address = b
						return nil
					})
				})
			})
		}
		return nil
	})
	return address, health, err
}
