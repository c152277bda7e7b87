package local

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/lab/components"
)

// note writes the record of the lab, and raises the machine's limits that are too low.
func (u *starter) note() (err error) {
	host := sysctls{"/proc/sys"}
	if u.record.Sysctls, err = host.toRaise(inotifyInstances, needInotify); err != nil {
		return err
	}
	if err := u.paths.writeRecord(u.record); err != nil {
		return err
	}
	for name := range u.record.Sysctls {
		if err := host.set(map[string]int{name: needInotify}); err != nil {
			u.say("%v: some forty sidecars will fit", err)
		}
	}
	return nil
}

// spec is what init makes the lab from.
func (u *starter) spec() (*spec, error) {
	s := &spec{
		ID: u.record.ID, Dir: u.paths.dir(u.record.ID), ImageStore: u.record.ImageStore, Network: u.record.Network, Cgroup: u.record.Cgroup,
		Programs: map[string]components.Program{}, CNI: u.set.Dir("cni"), Images: u.images, Pause: components.PauseRef, Audit: u.o.Audit,
		MetricsServer: u.o.MetricsServer, Ambient: u.o.Ambient, Nodes: u.record.Nodes,
	}
	if !s.several() {
		s.Self = s.Nodes[0]
	}
	for _, name := range programsOf(u.o.MetricsServer) {
		program, ok := u.set.Program(name)
		if !ok {
			return nil, fmt.Errorf("the components have no program %s", name)
		}
		s.Programs[name] = program
	}
	s.Keep = s.keep()
	return s, nil
}

// writeFiles writes init's files and the administrator's kubeconfig, which it also
// returns as a client configuration.
func (u *starter) writeFiles(s *spec) (*rest.Config, error) {
	keys, ofNodes, err := pkiFiles(s.Network, s.Nodes, u.began, s.MetricsServer)
	if err != nil {
		return nil, err
	}
	if err := s.writeFiles(keys); err != nil {
		return nil, fmt.Errorf("write the lab's files: %w", err)
	}
	for _, n := range s.Nodes {
		if !s.several() {
			break // it is the lab's own
		}
		if err := s.of(n).writeFiles(ofNodes[n.Name]); err != nil {
			return nil, fmt.Errorf("write the files of node %s: %w", n.Name, err)
		}
	}
	admin := keys.kubeconfigs["admin"]
	if err := writeFile(u.paths.kubeconfig(), admin); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1 // the server decides how fast
	return config, nil
}
