package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// nodeComponent is the name of a node's first process in the status.
const nodeComponent = "node"

// fleet manages the nodes of a multi-node lab for its init: it starts each in its own
// namespaces, sets up its network, cgroup and images, and removes these whenever the
// node ends.
type fleet struct {
	init     *node
	groups   cgroups
	registry egress // through which nodes pull images
	api      chan struct{}
	members  []*member

	mu sync.Mutex // held while routes to the cluster IPs change
}

func newFleet(n *node, outside hostNetwork) (*fleet, error) {
	groups, err := machineCgroups()
	if err != nil {
		return nil, err
	}
	f := &fleet{init: n, groups: groups, registry: outside.DialContext, api: make(chan struct{})}
	for _, of := range n.spec.Nodes {
		f.members = append(f.members, &member{fleet: f, spec: n.spec.of(of)})
	}
	return f, nil
}

// startAll starts all nodes concurrently.
func (f *fleet) startAll(ctx context.Context) error {
	// A lab that died with its record lost has left its nodes' stores.
	if err := os.RemoveAll(filepath.Dir(nodeStores(f.init.spec.ImageStore, f.init.spec.ID))); err != nil {
		return fmt.Errorf("remove the nodes of an earlier lab: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range f.members {
		group.Go(func() error {
			if err := m.start(ctx); err != nil {
				return err
			}
			f.init.say("node %s started", m.spec.Self.Name)
			return nil
		})
	}
	return group.Wait()
}

// find returns a node by name.
func (f *fleet) find(name string) (*member, error) {
	var names []string
	for _, m := range f.members {
		if m.spec.Self.Name == name {
			return m, nil
		}
		names = append(names, m.spec.Self.Name)
	}
	return nil, errs.Usage("the lab has no node %q; its nodes are %s", name, strings.Join(names, ", "))
}

// launch sets up a node and starts its first process. The channel receives nil when
// the node is up, or its error.
func (m *member) launch() (<-chan error, error) {
	s, f := m.spec, m.fleet
	name := s.Self.Name
	// The node starts with an empty disk, except for the images and its logs.
	if err := (imageStore{f.init.spec.ImageStore}).clone(imageStore{s.ImageStore}); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	for _, dir := range []string{"kubelet", "tmp"} {
		if err := errors.Join(os.RemoveAll(s.Dir.join(dir)), os.MkdirAll(s.Dir.join(dir), 0o700)); err != nil {
			return nil, err
		}
	}
	if err := f.groups.create(s.Cgroup, nodeShare); err != nil {
		return nil, err
	}
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	pid, ended, err := f.init.sup.start(process{
		name: "node-" + name, path: "/proc/self/exe", args: []string{"lab-node", s.Dir.spec()}, env: os.Environ(), files: []*os.File{theirs},
		flags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	})
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	gone := make(chan struct{})
	m.mu.Lock()
	m.pid, m.gone, m.since = pid, gone, time.Now()
	m.starts++
	m.mu.Unlock()
	registry, err := m.connect(pid)
	go m.await(ended, ours, registry, gone) // ends with the node
	if err == nil {
		err = sendEvent(ours, event{Event: eventGo})
	}
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		<-gone
		return nil, err
	}
	up := make(chan error, 1)
	go follow(ours, up) // ends with the node
	go func() {         // ends once the API answers, or with the node
		select {
		case <-f.api:
			_ = sendEvent(ours, event{Event: eventAPI}) // the node may have ended
		case <-gone:
		}
	}()
	return up, nil
}

// connect gives a new node its cgroup and its network. It returns the listener of the
// node's registry proxy.
func (m *member) connect(pid int) (registry net.Listener, err error) {
	s, f := m.spec, m.fleet
	if err := f.groups.join(s.Cgroup, pid); err != nil {
		return nil, err
	}
	if err := linkNode(s.Self, s.Network.Node.Addr(), pid); err != nil {
		return nil, err
	}
	err = inNetwork(pid, func() error {
		if err := configureMember(s); err != nil {
			return err
		}
		registry, err = net.Listen("tcp", egressAddress)
		return err
	})
	if err != nil {
		return nil, err
	}
	go f.registry.serve(registry) // ends when it is closed
	f.enterBy()
	return registry, nil
}

// follow reads a node's events until it is up or fails.
func follow(control *os.File, up chan<- error) {
	lines := bufio.NewReader(control)
	for {
		e, err := readEvent(lines)
		switch {
		case errors.Is(err, errUnreadable):
			up <- err
			return
		case err != nil:
			return // it ended, which is the more useful error
		case e.Event == eventUp:
			up <- nil
			return
		case e.Event == eventFailed:
			up <- errors.New(e.Text)
			return
		}
	}
}

// await waits for a node's end and cleans up after it. The first process of the node's
// PID namespace ends last.
func (m *member) await(ended <-chan unix.WaitStatus, control *os.File, registry net.Listener, gone chan struct{}) {
	how := describeStatus(<-ended)
	control.Close()
	if registry != nil {
		registry.Close()
	}
	f, s := m.fleet, m.spec
	m.mu.Lock()
	m.pid, m.since, m.lastExit = 0, time.Now(), how
	m.mu.Unlock()
	if err := unlinkNode(s.Self); err != nil {
		f.init.say("node %s: %v", s.Self.Name, err)
	}
	f.enterBy()
	limited, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	if err := f.groups.remove(limited, s.Cgroup); err != nil {
		f.init.say("node %s: %v", s.Self.Name, err)
	}
	close(gone)
}

// enterBy routes the host's traffic for cluster IPs through the first running node.
func (f *fleet) enterBy() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if pid, _ := m.running(); pid == 0 {
			continue
		}
		if routeServices(f.init.spec.Network.Services, m.spec.Self) == nil {
			return // a starting node has no link yet, and an ending one has none left
		}
	}
}

// InitNode is the main function of PID 1 of one of several nodes. It returns when it
// receives an order to end or cannot start, and every process of the node ends with
// it. The lab's init has set up its network.
func InitNode(ctx context.Context, specFile string) error {
	if os.Getpid() != 1 {
		return errors.New("lab-node is started only by a lab's init, as the first process of new namespaces")
	}
	unix.CloseOnExec(fdControl)
	control := os.NewFile(fdControl, "control")
	lines := bufio.NewReader(control)
	if err := expect(lines, eventGo); err != nil {
		return err
	}
	// It was started through a link with another name.
	os.WriteFile("/proc/self/comm", []byte("meshtrial"), 0)
	s, err := readSpec(specFile)
	if err != nil {
		return err
	}
	n := &node{spec: s, sup: newSupervisor(s.Dir.log), control: control}
	api := make(chan struct{})
	go func() { // ends with the lab's init, as this process does
		if expect(lines, eventAPI) == nil {
			close(api)
		}
	}()
	err = n.runMember(ctx, api)
	n.send(event{Event: eventFailed, Text: fmt.Sprint(err)})
	return err
}

// runMember brings the node up, starting its kubelet once the API answers, and keeps
// it running until it is ordered to end.
func (n *node) runMember(life context.Context, api <-chan struct{}) error {
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	raiseFileLimit()
	life, stop := signal.NotifyContext(life, unix.SIGTERM, unix.SIGINT)
	defer stop()
	if err := mountNode(n.spec); err != nil {
		return err
	}
	go n.sup.reap(context.Background())
	go n.serveStatus()
	ctx, cancel := context.WithTimeoutCause(life, startLimit, errStartLimit)
	defer cancel()
	if err := n.startContainerd(ctx, life); err != nil {
		return err
	}
	select {
	case <-api:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	n.startKubelet(life)
	n.send(event{Event: eventUp})
	<-life.Done()
	return nil
}

// member is one of several nodes, as seen by the lab's init.
type member struct {
	fleet *fleet
	spec  *spec

	turn sync.Mutex // held while it is being started or killed

	mu       sync.Mutex
	pid      int // 0 while it is not running
	gone     chan struct{}
	since    time.Time
	starts   int
	lastExit string
}

// running returns the PID of the node's first process (0 if it is not running) and a
// channel that is closed once the node and its resources are gone.
func (m *member) running() (pid int, gone <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid, m.gone
}

// start starts the node and returns once its kubelet has started. A node that fails to
// start is dead, like a killed one.
func (m *member) start(ctx context.Context) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if pid, _ := m.running(); pid > 0 {
		return errs.Usage("node %s is already running", m.spec.Self.Name)
	}
	events, err := m.launch()
	if err != nil {
		return fmt.Errorf("start node %s: %w", m.spec.Self.Name, err)
	}
	pid, gone := m.running()
	select {
	case err = <-events:
	case <-gone:
		err = fmt.Errorf("it ended: %s", m.status().LastExit)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		if pid > 0 { // it may have ended, and PID 0 would mean the caller
			unix.Kill(pid, unix.SIGKILL)
		}
		<-gone
		return fmt.Errorf("start node %s: %w; see %s", m.spec.Self.Name, err, m.spec.Dir.logs())
	}
	return nil
}

// kill ends all processes of the node at once, like a power failure. It returns once
// nothing of the node is left.
func (m *member) kill() error {
	m.turn.Lock()
	defer m.turn.Unlock()
	pid, gone := m.running()
	if pid == 0 {
		return errs.Usage("node %s is not running", m.spec.Self.Name)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	<-gone
	return nil
}

// status returns the node's own status, listed alongside those of its components.
func (m *member) status() ComponentStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ComponentStatus{Name: nodeComponent, Node: m.spec.Self.Name, PID: m.pid, Since: m.since, Restarts: max(0, m.starts-1), LastExit: m.lastExit}
}

// components returns the node's own status and those of its components, if it is
// running and answers.
func (m *member) components() []ComponentStatus {
	own := m.status()
	all := []ComponentStatus{own}
	if own.PID == 0 {
		return all
	}
	inside, err := queryInit(own.PID)
	if err != nil {
		return all
	}
	for _, c := range inside {
		c.Node = own.Node
		all = append(all, c)
	}
	return all
}
