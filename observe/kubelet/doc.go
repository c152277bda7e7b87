// Package kubelet reads the CPU time and memory of containers from a node's
// kubelet, through the API server, where nobody may deploy a pod that sees the
// node's cgroups.
//
//	GET /api/v1/nodes/NODE/proxy/metrics/resource (the right get nodes/proxy)
//	-> Parse -> Page -> Series.Add, as often as one looks
//	-> Series.Between(a, b): CPU-seconds of a window, with their error
//
// A [Watch] looks at several nodes while a trial lasts, and waits until there are
// samples on both sides of its window.
//
// Most kubelets do not read counters when they are asked: cAdvisor samples each
// container every 10 to 20 s, at a time of its own, and the answer is the last
// sample and its time. What a container used in a window is therefore
// interpolated between samples; [Series.Between] says how far that may be off.
package kubelet
