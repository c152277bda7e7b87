// Package kubelet reads the CPU time and memory of containers from a node's
// kubelet through the API server. It serves clusters where no pod that can see
// the node's cgroups may be deployed.
//
//	GET /api/v1/nodes/NODE/proxy/metrics/resource (the right get nodes/proxy)
//	-> Parse -> Page -> Series.Add, as often as one looks
//	-> Series.Between(a, b): CPU-seconds of a window, with their error
//
// A [Watch] polls several nodes during a trial, and waits until there are samples
// on both sides of its window.
//
// Most kubelets do not read counters on demand: cAdvisor samples each container
// every 10 to 20 s, at independent times, and the kubelet returns the last sample
// with its time. The use of a container in a window is therefore interpolated
// between samples; [Series.Between] reports the possible error.
package kubelet
