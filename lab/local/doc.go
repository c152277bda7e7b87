// Package local starts and stops a real one-node Kubernetes from processes
// on this machine, in namespaces of its own.
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
// Everything a lab leaves outside its namespaces is named in its record
// before it is made, so that [Down], or the next [Up], can remove it after
// any kind of crash: one network interface, one group in each cgroup
// hierarchy, one folder of state. The lock file next to the record is held
// by init for as long as it lives, which makes the lock the truth about
// whether a lab runs.
//
// Size: what is made, what is supervised and what is removed must name the
// same things, and a lab is never started without the code that removes it.
package local
