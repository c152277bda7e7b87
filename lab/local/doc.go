// Package local starts and stops a real Kubernetes, of one or several nodes, from processes
// on this machine in their own namespaces.
//
// [Up] checks the machine ([Requirements]), writes the contents of the lab into its state
// folder, and re-executes this program as PID 1 of new PID, mount, network, UTS and IPC
// namespaces ([Init]). That init mounts what a node needs, and starts and supervises etcd,
// the API server, the controllers, containerd, the kubelet, kube-proxy and kwok. It
// outlives the command that started it. Data passes through the package like this:
//
//	Options -> record (lab.json) and spec (spec.json) -> Init -> processes
//	                                                        \-> Lab: kubeconfig, images
//	Status, Logs <- record, init's control socket, log files
//	Down         <- record: what to end and to remove
//
// With several nodes ([Options.Nodes]) each has its own init ([InitNode]) below the lab's,
// in nested PID, mount, network, UTS and IPC namespaces, with containerd, kubelet and
// kube-proxy. The lab's init runs the control plane and routes between the nodes
// (network.go). The control plane has the lab's addresses, each node has an address and a
// range for its pods, and no address is translated. A node ends with its init, and all
// nodes end with the lab's init, since the kernel ends nested PID namespaces. The lab's
// init removes what a node leaves behind, and restarts it on request ([KillNode],
// [StartNode], fleet.go).
//
//	spec of the lab -> Init -> control plane
//	                    |----> spec of a node -> InitNode -> containerd, kubelet, kube-proxy
//	                    \----> ...
//
// Images are imported once, before the nodes start, into the kept store. A node's store
// links to it (store.go): blobs are the same files and unpacked layers the same folders,
// which overlays only read, so the page cache holds them once. With one node, the lab's
// init is the node's and uses the kept store directly.
//
// The record names everything that a lab leaves outside its namespaces, and is written
// before any of it is made. [Down], or the next [Up], can therefore remove it after any
// crash: one network interface, one group in each cgroup hierarchy, one folder of state
// and, with several nodes, a folder in the image store. Init holds the lock file next to
// the record as long as it lives: the lock decides whether a lab is running.
//
// Code that makes, supervises and removes things must stay in step, and a lab is never
// started without the code that removes it.
package local
