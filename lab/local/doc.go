// Package local starts and stops a real Kubernetes from processes on this
// machine, in namespaces of its own: of one node, or of several.
//
// [Up] checks the machine ([Requirements]), writes what the lab will consist
// of into its state folder, and re-executes this program as PID 1 of new
// PID, mount, network, UTS and IPC namespaces ([Init]). That init mounts
// what a node needs, starts and supervises etcd, the API server, the
// controllers, containerd, the kubelet, kube-proxy and kwok, and metrics-server
// if it is asked for, and outlives the command that started it. Data passes through the package like this:
//
//	Options -> record (lab.json) and spec (spec.json) -> Init -> processes
//	                                                        \-> Lab: kubeconfig, images
//	Status, Logs <- record, init's control socket, log files
//	Down         <- record: what to end and to remove, whatever became of init
//
// Of several nodes ([Options.Nodes]) each is a machine of its own below that
// init ([InitNode]), in PID, mount, network, UTS and IPC namespaces inside the
// lab's, with containerd, kubelet and kube-proxy; the lab's init keeps the control
// plane, and is the router between the nodes (nodenet.go). The control plane's
// addresses are the lab's, each node has an address and a range for its pods, and
// nobody translates any. A node ends when its init does, and all end with the lab's,
// as the kernel ends a PID namespace with those inside it. The lab's init takes away
// what a node had, and starts it anew when told ([KillNode], [StartNode], fleet.go).
//
//	spec of the lab -> Init -> control plane
//	                    |----> spec of a node -> InitNode -> containerd, kubelet, kube-proxy
//	                    \----> ...
//
// Images are imported once whatever the number of nodes: before they start, into
// the store that is kept. A node's store is made of it by links (store.go): blobs
// are the same files, unpacked layers the same folders, which a container's overlay
// only ever reads; so they lie once in the page cache too. With one node
// nothing of this is there: the lab's init is the node's, and uses the kept store.
//
// Everything a lab leaves outside its namespaces is named in its record
// before it is made, so that [Down], or the next [Up], can remove it after
// any kind of crash: one network interface, one group in each cgroup
// hierarchy, one folder of state, and of several nodes a folder in the image store.
// The lock file next to the record is held
// by init for as long as it lives, which makes the lock the truth about
// whether a lab runs.
//
// Size: what is made, what is supervised and what is removed must name the
// same things, and a lab is never started without the code that removes it.
package local
