package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// InitNode is the main of PID 1 of one of several nodes. It returns when it is told to
// end or cannot start, and every process of the node ends with it. The lab's init has
// set up its network.
func InitNode(ctx context.Context, specFile string) error {
	if os.Getpid() != 1 {
		return errors.New("lab-node is started by a lab's init, as the first process of new namespaces")
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

// runMember brings the node up, its kubelet once the API answers, and keeps it
// until it is told to end.
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
	ctx, cancel := context.WithTimeoutCause(life, startLimit, errors.New("the node did not come up within five minutes"))
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

// member is one of several nodes as the lab's init sees it.
type member struct {
	fleet *fleet
	spec  *spec

	turn sync.Mutex // held while it is being started or killed

	mu       sync.Mutex
	pid      int // 0 while it does not run
	gone     chan struct{}
	since    time.Time
	starts   int
	lastExit string
}

// running is the node's first process, 0 if it does not run, and a channel that is
// closed once the node and all that it had is gone.
func (m *member) running() (pid int, gone <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid, m.gone
}

// start starts the node and returns when its kubelet has been started. A node that
// fails to start is dead, like a killed one.
func (m *member) start(ctx context.Context) error {
	m.turn.Lock()
	defer m.turn.Unlock()
	if pid, _ := m.running(); pid > 0 {
		return errs.Usage("node %s runs already", m.spec.Self.Name)
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
		if pid > 0 { // it may have ended, and 0 is whoever asks
			unix.Kill(pid, unix.SIGKILL)
		}
		<-gone
		return fmt.Errorf("start node %s: %w; see %s", m.spec.Self.Name, err, m.spec.Dir.logs())
	}
	return nil
}

// kill ends all processes of the node at once, like a power failure. It returns when
// nothing of the node is left.
func (m *member) kill() error {
	m.turn.Lock()
	defer m.turn.Unlock()
	pid, gone := m.running()
	if pid == 0 {
		return errs.Usage("node %s does not run", m.spec.Self.Name)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	<-gone
	return nil
}

// status is the node's own, beside those of its components.
func (m *member) status() ComponentStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ComponentStatus{Name: nodeComponent, Node: m.spec.Self.Name, PID: m.pid, Since: m.since, Restarts: max(0, m.starts-1), LastExit: m.lastExit}
}

// components are the node's own status and those of its components, if it runs
// and answers.
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
