package wire

// Fields of istio.workload.Address and of the istio.workload.Workload in it, and the
// status of a workload that gets no traffic.
const (
	addressWorkload   = 1
	workloadAddresses = 3
	workloadStatus    = 17

	statusUnhealthy = 1
)

// Healthy reports whether a body of type Address is a workload with this address (the
// bytes of an IP) that may get traffic. Istiod also sends workloads that are not ready,
// marked unhealthy.
func Healthy(body, address []byte) (bool, error) {
	found := false
	err := within("address", body, addressWorkload, func(workload []byte) error {
		here, status := false, uint64(0)
		err := each("workload", workload, func(f field) error {
			switch f.num {
			case workloadAddresses:
				here = here || string(f.bytes) == string(address)
				return f.wantBytes("workload")
			case workloadStatus:
				status = f.number
			}
			return nil
		})
		found = here && status != statusUnhealthy
		return err
	})
	return found, err
}
