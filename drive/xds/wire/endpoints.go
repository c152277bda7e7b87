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
	err := each("load assignment", body, func(f field) error {
		if found || f.num != assignmentLocalities {
			return nil
		}
		if err := f.wantBytes("load assignment"); err != nil {
			return err
		}
		return each("locality", f.bytes, func(f field) error {
			if found || f.num != localityEndpoints {
				return nil
			}
			if err := f.wantBytes("locality"); err != nil {
				return err
			}
			at, health, err := endpoint(f.bytes)
			found = string(at) == string(address) && health != healthUnhealthy && health != healthDraining && health != healthTimeout
			return err
		})
	})
	return found, err
}

// endpoint reads the address and the health of an LbEndpoint.
func endpoint(b []byte) (address []byte, health uint64, err error) {
	path := []struct {
		what  string
		field int32
	}{{"endpoint of a locality", endpointOf}, {"endpoint", endpointAddress}, {"address", addressSocket}, {"socket address", socketAddress}}
	var walk func(b []byte, depth int) error
	walk = func(b []byte, depth int) error {
		step := path[depth]
		return each(step.what, b, func(f field) error {
			switch {
			case depth == 0 && f.num == endpointHealth:
				health = f.number
			case int32(f.num) != step.field:
			case f.wantBytes(step.what) != nil:
				return f.wantBytes(step.what)
			case depth == len(path)-1:
				address = f.bytes
			default:
				return walk(f.bytes, depth+1)
			}
			return nil
		})
	}
	err = walk(b, 0)
	return address, health, err
}
