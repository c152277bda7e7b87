// Package node injects faults on one node of a cluster: it kills and pauses processes of a
// container, and drops, delays or throttles packets between a pod and its peers.
//
// A runner asks the role fault (a pod of a DaemonSet) through a [Client]. Its [Server] finds
// the processes of a pod by their cgroups, enters the pod's network namespace, acts, and
// answers with a [Fault] that stays in force until it is reverted:
//
//	SignalRequest  -> /proc/*/cgroup -> pidfd        -> SIGKILL, SIGSTOP
//	                                 -> memory limit -> the kernel's own SIGKILL
//	NetworkRequest -> /proc/PID/ns/net -> nf_tables  -> drop, or a queue to user space
//
// A fault in force is a lease: it expires at an instant that the client has to extend, so
// that nothing outlives a dead runner. It also ends with the server. A killed server leaves
// marks in the network namespaces of the affected pods (see mark.go). They tell the next
// server on the node what to repair, and vanish with the pod.
//
// Packets are delayed and throttled in user space, by a netfilter queue: many kernels lack
// netem, and it works only on packets that leave an interface. [Client.Offers] reports what
// a node's kernel can do, by trying it in a scratch namespace.
package node
