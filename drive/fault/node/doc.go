// Package node disturbs what runs on one node of a cluster: it kills and
// pauses processes of a container, and cuts, loses, delays or slows packets
// between a pod and named peers.
//
// Data passes through it this way: a runner asks the role fault (a pod of a
// DaemonSet) through a [Client]; its [Server] finds the processes of a pod by
// their cgroups, enters the pod's network namespace, acts, and answers with a
// [Fault] that stands until it is undone:
//
//	SignalRequest  -> /proc/*/cgroup -> pidfd        -> SIGKILL, SIGSTOP
//	                                 -> memory limit -> the kernel's own SIGKILL
//	NetworkRequest -> /proc/PID/ns/net -> nf_tables  -> drop, or a queue to user space
//
// Everything that stands is a lease: it ends by itself at an instant that the
// client has to move on, so that nothing outlives a runner that died. It ends
// too when the server does. And a server that was killed leaves marks in the
// network namespaces of the pods concerned (see mark.go), by which the next
// one on the node finds what it has to put right, and which vanish with the
// pod itself.
//
// Packets are delayed and slowed in user space, by a netfilter queue: the
// kernel's own means for it (netem) is missing in many kernels, and where it
// exists works only on what leaves an interface. [Client.Offers] says what a
// node's kernel can do, by trying it out in a namespace made for that.
package node
