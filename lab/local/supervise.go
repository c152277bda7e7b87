package local

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// Delays before restarting a component that has exited.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = 5 * time.Second
	restartReset = 10 * time.Second // a run of this length resets the delay

	restartsFailing = 5 // after which a component counts as failing
)

// ComponentStatus is the status of one supervised process.
type ComponentStatus struct {
	Name     string    `json:"name"`
	PID      int       `json:"pid,omitempty"` // in the lab's PID namespace; 0 while it is not running
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	Node     string    `json:"node,omitempty"`      // if there are several
	LastExit string    `json:"last_exit,omitempty"` // how its last run ended
}

// supervisor owns every process of the lab: as PID 1 it starts and restarts them, and
// reaps orphans.
type supervisor struct {
	logs func(name string) string // path of a component's log

	mu       sync.Mutex
	children map[int]chan unix.WaitStatus
	order    []string
	status   map[string]*ComponentStatus
}

func newSupervisor(logs func(string) string) *supervisor {
	return &supervisor{logs: logs, children: map[int]chan unix.WaitStatus{}, status: map[string]*ComponentStatus{}}
}

// reap collects every child that ends, both its own and adopted orphans, until the
// context ends.
func (s *supervisor) reap(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	for {
		for {
			var status unix.WaitStatus
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			if err == unix.EINTR {
				continue
			}
			if pid <= 0 || err != nil {
				break
			}
			s.mu.Lock()
			if ended := s.children[pid]; ended != nil {
				delete(s.children, pid)
				ended <- status
			}
			s.mu.Unlock()
		}
		select {
		case <-died:
		case <-ctx.Done():
			return
		}
	}
}

// start runs a process with its output appended to its log. The channel receives its
// status when it ends.
func (s *supervisor) start(p process) (int, <-chan unix.WaitStatus, error) {
	log, err := os.OpenFile(s.logs(p.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	ended := make(chan unix.WaitStatus, 1)
	s.mu.Lock() // reap must know the child before it can collect it
	defer s.mu.Unlock()
	child, err := os.StartProcess(p.path, append([]string{p.path}, p.args...), &os.ProcAttr{
		Dir: "/", Env: p.env, Files: append([]*os.File{null, log, log}, p.files...),
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: p.flags}, // detached from our terminal and its signals
	})
	if err != nil {
		return 0, nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	pid := child.Pid
	child.Release() // reap waits for it
	s.children[pid] = ended
	return pid, ended, nil
}

// run runs a process until it ends; an unsuccessful end is an error.
func (s *supervisor) run(ctx context.Context, p process) error {
	pid, ended, err := s.start(p)
	if err != nil {
		return err
	}
	select {
	case status := <-ended:
		if !status.Exited() || status.ExitStatus() != 0 {
			return fmt.Errorf("%s %s, see %s", p.name, describeStatus(status), s.logs(p.name))
		}
		return nil
	case <-ctx.Done():
		unix.Kill(pid, unix.SIGKILL)
		<-ended
		return context.Cause(ctx)
	}
}

// keep starts a component and restarts it whenever it ends, until ctx ends; the
// process then ends with init.
func (s *supervisor) keep(ctx context.Context, p process) {
	s.mu.Lock()
	status := &ComponentStatus{Name: p.name, Since: time.Now()}
	s.order = append(s.order, p.name)
	s.status[p.name] = status
	s.mu.Unlock()
	go func() {
		delay := restartFirst
		for {
			began := time.Now()
			pid, ended, err := s.start(p)
			exit := ""
			if err != nil {
				exit = err.Error()
			} else {
				s.update(func() { status.PID, status.Since = pid, began })
				select {
				case how := <-ended:
					exit = describeStatus(how)
				case <-ctx.Done():
					return
				}
			}
			s.update(func() {
				status.PID, status.Since, status.LastExit = 0, time.Now(), exit
				status.Restarts++
			})
			if time.Since(began) > restartReset {
				delay = restartFirst
			}
			if wake.Pause(ctx, delay) != nil {
				return
			}
			delay = min(2*delay, restartMost)
		}
	}()
}

func (s *supervisor) update(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
}

// components lists the status of each component in start order.
func (s *supervisor) components() []ComponentStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ComponentStatus
	for _, name := range s.order {
		all = append(all, *s.status[name])
	}
	return all
}

// failing names a component that keeps exiting, and how it exits.
func (s *supervisor) failing() error {
	for _, c := range s.components() {
		if c.Restarts >= restartsFailing && c.PID == 0 {
			return fmt.Errorf("%s ended %d times: %s; see %s", c.Name, c.Restarts, c.LastExit, s.logs(c.Name))
		}
	}
	return nil
}

func describeStatus(status unix.WaitStatus) string {
	if status.Signaled() {
		return "was ended by signal " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", status.ExitStatus())
}
