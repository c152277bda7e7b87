// Package kubelet reads the CPU time and memory of containers from a node's
// kubelet, through the API server, where nobody may deploy a pod that sees the
// node's cgroups.
//
//	GET /api/v1/nodes/NODE/proxy/stats/summary (the right get nodes/proxy)
//	-> Parse -> Summary -> Series.Add, as often as one looks
//	-> Series.Between(a, b): CPU-seconds of a window, with their error
//
// The kubelet does not read counters when it is asked: it samples each container
// every 10 s or more, at a time of its own, and answers with the last sample and
// that sample's time. What a container used in a window is therefore
// interpolated between samples; [Series.Between] says how far that may be off.
package kubelet
